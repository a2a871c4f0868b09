#include "core/database_connection_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/testing/manual_clock.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

// A server that can be up or down, and counts.
class FakeServer {
 public:
  std::atomic<bool> up{true};
  std::atomic<int> attempts{0};
  std::atomic<int> open{0};
  std::atomic<int> most_open{0};
  // At the sockets of connections.
  std::atomic<int> looks{0};
  // Connections opened before the last crash are lost.
  std::atomic<int> crashes{0};
};

class FakeConnection {
 public:
  explicit FakeConnection(FakeServer& server) : server_(server), born_(server.crashes) {
    const int open = ++server_.open;
    int most = server_.most_open;
    while (open > most && !server_.most_open.compare_exchange_weak(most, open)) {
    }
  }
  ~FakeConnection() { --server_.open; }
  bool Usable() {
    ++server_.looks;
    if (born_ != server_.crashes) intact_ = false;
    return intact_;
  }
  bool Intact() const { return intact_; }
  // A call on it failed.
  void Break() { intact_ = false; }

 private:
  FakeServer& server_;
  const int born_;
  bool intact_ = true;
};

using Pool = DatabaseConnectionPool<FakeConnection>;

class DatabaseConnectionPoolTest : public ::testing::Test {
 protected:
  Pool::Open Open() {
    return [this]() -> absl::StatusOr<std::unique_ptr<FakeConnection>> {
      ++server_.attempts;
      if (!server_.up) return absl::UnavailableError("down");
      return std::make_unique<FakeConnection>(server_);
    };
  }
  static DatabaseConnectionPoolOptions Options(int size) {
    DatabaseConnectionPoolOptions options;
    options.size = size;
    options.acquire_timeout = absl::Milliseconds(20);
    return options;
  }

  FakeServer server_;
  ManualClock clock_;
};

TEST_F(DatabaseConnectionPoolTest, OpensOnlyWhatIsNeeded) {
  Pool pool(Options(3), clock_, Open());
  EXPECT_EQ(server_.attempts, 0);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(pool.Acquire().ok());
  EXPECT_EQ(server_.attempts, 1) << "an idle one is used again";
  const auto one = pool.Acquire();
  const auto two = pool.Acquire();
  EXPECT_EQ(pool.gauges().in_use, 2);
  EXPECT_EQ(pool.gauges().idle, 0);
  EXPECT_EQ(server_.attempts, 2);
}

TEST_F(DatabaseConnectionPoolTest, WaitsForAFreeOneForABoundedTime) {
  DatabaseConnectionPoolOptions options = Options(1);
  Pool pool(options, clock_, Open());
  std::optional<Pool::Lease> held(*pool.Acquire());
  const auto refused = pool.Acquire();
  EXPECT_EQ(ReasonOf(refused.status()), Reason::kStoreUnavailable);
  EXPECT_TRUE(DetailsOf(refused.status()).retry_delay.has_value());
  held.reset();
  EXPECT_TRUE(pool.Acquire().ok());
}

TEST_F(DatabaseConnectionPoolTest, ALostConnectionIsReplaced) {
  Pool pool(Options(2), clock_, Open());
  {
    const auto one = pool.Acquire();
    const auto two = pool.Acquire();
    for (const auto* const lease : {&one, &two}) (**lease)->Break();
  }
  EXPECT_EQ(pool.gauges().idle, 0);
  EXPECT_EQ(pool.gauges().broken, 2);
  ASSERT_TRUE(pool.Acquire().ok());
  EXPECT_EQ(pool.gauges().broken, 1);
  // Lost while it was idle.
  ++server_.crashes;
  const auto lease = pool.Acquire();
  ASSERT_TRUE(lease.ok());
  EXPECT_TRUE((*lease)->Usable());
  EXPECT_EQ(server_.open, 1);
}

TEST_F(DatabaseConnectionPoolTest, AConnectionIsLookedAtWhenItIsTakenAlone) {
  Pool pool(Options(1), clock_, Open());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pool.Acquire().ok());
  EXPECT_EQ(server_.looks, 2) << "the first was new";
  {
    const auto held = pool.Acquire();
    ++server_.crashes;
  }
  EXPECT_EQ(pool.gauges().idle, 1) << "its next caller finds it";
  const auto lease = pool.Acquire();
  ASSERT_TRUE(lease.ok());
  EXPECT_TRUE((*lease)->Usable());
  EXPECT_EQ(server_.open, 1);
}

// The other connection is not returned, so nothing but the time wakes the waiter.
TEST_F(DatabaseConnectionPoolTest, AWaiterTriesTheServerAgainAfterThePause) {
  DatabaseConnectionPoolOptions options = Options(2);
  options.min_backoff = absl::Milliseconds(1);
  options.max_backoff = absl::Milliseconds(5);
  options.acquire_timeout = absl::Seconds(20);
  Pool pool(options, Clock::System(), Open());
  const auto held = pool.Acquire();
  server_.up = false;
  EXPECT_FALSE(pool.Acquire().ok());
  server_.up = true;
  const auto began = std::chrono::steady_clock::now();
  const auto second = pool.Acquire();
  EXPECT_TRUE(second.ok()) << second.status();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
}

TEST_F(DatabaseConnectionPoolTest, FailsAtOnceAfterTheServerWasFoundDown) {
  DatabaseConnectionPoolOptions options = Options(4);
  options.min_backoff = absl::Seconds(1);
  options.max_backoff = absl::Seconds(4);
  Pool pool(options, clock_, Open());
  server_.up = false;
  EXPECT_FALSE(pool.Acquire().ok());
  for (int i = 0; i < 10; ++i) {
    const auto refused = pool.Acquire();
    EXPECT_EQ(ReasonOf(refused.status()), Reason::kStoreUnavailable);
  }
  EXPECT_EQ(server_.attempts, 1) << "no attempt before the pause is over";
  // The pauses grow, up to the longest.
  for (int attempt = 2; attempt <= 6; ++attempt) {
    clock_.Advance(absl::Seconds(4));
    EXPECT_FALSE(pool.Acquire().ok());
    EXPECT_FALSE(pool.Acquire().ok());
    EXPECT_EQ(server_.attempts, attempt);
  }
  server_.up = true;
  EXPECT_FALSE(pool.Acquire().ok());
  clock_.Advance(absl::Seconds(4));
  EXPECT_TRUE(pool.Acquire().ok());
  EXPECT_EQ(pool.gauges().broken, 0);
}

TEST_F(DatabaseConnectionPoolTest, AServerThatIsBackIsTriedWithinHalfASecondHoweverLongItWasAway) {
  const DatabaseConnectionPoolOptions options;
  Pool pool(options, clock_, Open());
  server_.up = false;
  for (int attempt = 1; attempt <= 20; ++attempt) {
    EXPECT_FALSE(pool.Acquire().ok());
    EXPECT_EQ(server_.attempts, attempt);
    clock_.Advance(absl::Milliseconds(500));
  }
  server_.up = true;
  EXPECT_TRUE(pool.Acquire().ok());
}

TEST_F(DatabaseConnectionPoolTest, ManyThreadsShareFewConnectionsOfAFlakyServer) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 2000;
  DatabaseConnectionPoolOptions options = Options(3);
  options.acquire_timeout = absl::Seconds(20);
  Pool pool(options, clock_, Open());
  std::atomic<int> served{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      pthread_setname_np(pthread_self(), "borrower");
      for (int i = 0; i < kRounds; ++i) {
        if (t == 0 && i % 50 == 0) ++server_.crashes;
        if (t == 1 && i % 100 == 0) server_.up = i % 200 != 0;
        const auto lease = pool.Acquire();
        if (lease.ok()) {
          ++served;
        } else {
          clock_.Advance(absl::Seconds(1));
        }
      }
      if (t == 1) server_.up = true;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(server_.most_open, 3);
  EXPECT_GT(served, 0);
  EXPECT_EQ(pool.gauges().in_use, 0);
  clock_.Advance(absl::Seconds(10));
  EXPECT_TRUE(pool.Acquire().ok());
}

TEST_F(DatabaseConnectionPoolTest, OnlyAnIdleConnectionIsTakenWithoutWaiting) {
  Pool pool(Options(1), clock_, Open());
  EXPECT_FALSE(pool.TryAcquire().has_value()) << "none is open";
  { ASSERT_TRUE(pool.Acquire().ok()); }
  const auto taken = pool.TryAcquire();
  ASSERT_TRUE(taken.has_value());
  EXPECT_FALSE(pool.TryAcquire().has_value());
}

TEST_F(DatabaseConnectionPoolTest, TheOldestTakesTurns) {
  Pool pool(Options(3), clock_, Open());
  EXPECT_FALSE(pool.TryAcquireOldest().has_value());
  {
    const auto one = pool.Acquire();
    const auto two = pool.Acquire();
    const auto three = pool.Acquire();
  }
  std::set<const FakeConnection*> seen;
  for (int i = 0; i < 3; ++i) {
    seen.insert(&**pool.TryAcquireOldest());
    // Calls in between use one alone.
    ASSERT_TRUE(pool.Acquire().ok());
  }
  EXPECT_EQ(seen.size(), 3u);
}

TEST_F(DatabaseConnectionPoolTest, ALostConnectionIsNotTaken) {
  Pool pool(Options(1), clock_, Open());
  { ASSERT_TRUE(pool.Acquire().ok()); }
  ++server_.crashes;
  EXPECT_FALSE(pool.TryAcquire().has_value());
  EXPECT_EQ(server_.open, 0);
  EXPECT_TRUE(pool.Acquire().ok()) << "its slot is free";
}

TEST_F(DatabaseConnectionPoolTest, ACallerThatWaitsTakesAnOfferedConnection) {
  DatabaseConnectionPoolOptions options = Options(1);
  options.acquire_timeout = absl::Seconds(20);
  Pool pool(options, clock_, Open());
  { ASSERT_TRUE(pool.Acquire().ok()); }
  std::optional<Pool::Lease> held = pool.TryAcquire();
  std::atomic<int> wanted{0};
  ASSERT_TRUE(held->Offer([&wanted] { ++wanted; }));
  EXPECT_EQ(pool.gauges().idle, 1);
  EXPECT_EQ(pool.gauges().in_use, 0);

  std::thread waiting([&pool] { EXPECT_TRUE(pool.Acquire().ok()); });
  while (wanted == 0) std::this_thread::yield();
  EXPECT_FALSE(pool.TryAcquire().has_value());
  EXPECT_FALSE(held->Offer([] { ADD_FAILURE() << "one waits already"; }));
  held.reset();
  waiting.join();
  EXPECT_EQ(wanted, 1);
}

TEST_F(DatabaseConnectionPoolTest, AWithdrawnConnectionIsNotTaken) {
  Pool pool(Options(1), clock_, Open());
  { ASSERT_TRUE(pool.Acquire().ok()); }
  std::optional<Pool::Lease> held = pool.TryAcquire();
  ASSERT_TRUE(held->Offer([] { ADD_FAILURE() << "it is in use"; }));
  held->Withdraw();
  EXPECT_EQ(pool.gauges().in_use, 1);
  EXPECT_FALSE(pool.Acquire().ok());
}

}  // namespace
}  // namespace idempotency::internal
