// One namespace floods a real idempotencyd, far over its limit; every operation of another one
// succeeds meanwhile. The ratio of throughputs is `fairness` of scripts/bench.sh.
//
// The flood has a rate, many times its limit, rather than no pause at all: the generator, the
// daemon and the other tenant share the processors of one machine, and a generator without a pause
// would take them away from the other tenant by itself, whatever the daemon does.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "core/mutex.h"
#include "grpc_idempotency/client/connection_factory.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/uuid.h"
#include "tests/support/daemon_process.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Per second. So few that two busy processors have room for both, also with sanitizers: the test is
// about whom the daemon serves, not about the speed of the machine.
constexpr int kSteady = 150;
constexpr int kLimit = 25;
constexpr int kFlood = 20 * kLimit;

std::string FloodConfig() {
  return absl::StrCat(
      "identities { name: \"machine\" local: true }\n"
      "rules { identity: \"machine\" namespaces: \"*\" permissions: WRITE }\n"
      "namespaces { name: \"flood\" limits { max_rate: ",
      kLimit, " max_in_flight: 16 max_waiting: 4 } }\n");
}

// Calls a function at a rate, on a thread of its own.
class PacedThread {
 public:
  PacedThread(int per_second, std::function<void()> function)
      : thread_([this, per_second, function = std::move(function)] {
          auto next = steady_clock::now();
          std::int64_t ticks = 0;
          std::int64_t called = 0;
          while (!stop_) {
            // The pace of a load, not a wait for an event.
            next += kTick;
            std::this_thread::sleep_until(next);
            for (const auto due = ++ticks * kTick.count() * per_second / 1000; called < due;
                 ++called) {
              function();
            }
          }
        }) {}
  ~PacedThread() {
    stop_ = true;
    thread_.join();
  }

 private:
  static constexpr milliseconds kTick{5};

  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// A number that grows. Thread-safe.
class Count {
 public:
  void Add() {
    MutexLock lock(mutex_);
    ++count_;
    grown_.NotifyAll();
  }
  std::int64_t value() {
    MutexLock lock(mutex_);
    return count_;
  }
  // False if it does not grow for a minute.
  bool Await(std::int64_t count) {
    MutexLock lock(mutex_);
    while (count_ < count) {
      const std::int64_t before = count_;
      if (!grown_.WaitUntil(lock, steady_clock::now() + std::chrono::minutes(1)) &&
          count_ == before) {
        return false;
      }
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar grown_;
  std::int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Counts calls that have not been answered, and waits for them.
class Outstanding {
 public:
  // False: as many as `most` are.
  bool Begin(int most) {
    MutexLock lock(mutex_);
    if (count_ >= most) return false;
    ++count_;
    return true;
  }
  void End() {
    MutexLock lock(mutex_);
    if (--count_ == 0) none_.NotifyAll();
  }
  void AwaitNone() {
    MutexLock lock(mutex_);
    while (count_ > 0) none_.Wait(lock);
  }

 private:
  Mutex mutex_;
  CondVar none_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

std::unique_ptr<Connection> ConnectTo(const std::string& address, ConnectionOptions::Kind kind) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  ConnectionOptions options;
  options.kind = kind;
  return MakeConnection(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments), options);
}

v1::ReserveRequest NewReservation(const std::string& name_space) {
  v1::ReserveRequest request = testing::SomeReserve(Uuid::TimeOrdered(absl::Now()).ToString());
  request.mutable_record_key()->set_namespace_(name_space);
  return request;
}

// A tenant with callers that each make a reservation, then its completion. What is not answered in
// time is lost: at most kCallers are under way.
class Tenant {
 public:
  explicit Tenant(const std::string& address)
      : connection_(ConnectTo(address, ConnectionOptions::Kind::kSession)),
        pace_(std::make_unique<PacedThread>(kSteady, [this] { Reserve(); })) {}
  ~Tenant() {
    pace_.reset();
    outstanding_.AwaitNone();
  }

  // Waits until `count` more have ended, also with a failure. False if none ends any more.
  bool AwaitFurtherCycles(std::int64_t count) { return ended_.Await(ended_.value() + count); }
  std::int64_t failures() { return failures_.value(); }

 private:
  static constexpr int kCallers = 16;

  void Reserve() {
    if (!outstanding_.Begin(kCallers)) return;
    const v1::ReserveRequest request = NewReservation("steady");
    connection_->Reserve(
        request, Deadline(),
        [this, key = request.record_key()](const absl::StatusOr<v1::ReserveResponse>& answer) {
          if (answer.ok() && answer->has_reserved()) {
            return Complete(key, answer->reserved().reservation_token());
          }
          failures_.Add();
          ended_.Add();
          outstanding_.End();
        });
  }
  void Complete(const v1::RecordKey& key, const std::string& token) {
    v1::CompleteRequest request = testing::SomeComplete(key.key(), token, "reply");
    *request.mutable_record_key() = key;
    connection_->Complete(request, Deadline(),
                          [this](const absl::StatusOr<v1::CompleteResponse>& answer) {
                            if (!answer.ok()) failures_.Add();
                            ended_.Add();
                            outstanding_.End();
                          });
  }
  static steady_clock::time_point Deadline() {
    return steady_clock::now() + std::chrono::seconds(20);
  }

  Count ended_;
  Count failures_;
  Outstanding outstanding_;
  const std::unique_ptr<Connection> connection_;
  std::unique_ptr<PacedThread> pace_;
};

// Reservations of new keys, by unary calls and sessions, on many connections.
class Flood {
 public:
  explicit Flood(const std::string& address) {
    for (const auto kind : {ConnectionOptions::Kind::kUnary, ConnectionOptions::Kind::kSession}) {
      for (int i = 0; i < 8; ++i) connections_.push_back(ConnectTo(address, kind));
    }
    pace_ = std::make_unique<PacedThread>(kFlood, [this] { Send(); });
  }
  ~Flood() {
    pace_.reset();
    outstanding_.AwaitNone();
  }

  bool AwaitRefused(std::int64_t count) { return refused_.Await(count); }
  std::int64_t admitted() { return admitted_.value(); }
  std::int64_t refused() { return refused_.value(); }

 private:
  // More are not kept under way: a daemon that does not answer is no reason to grow.
  static constexpr int kMaxOutstanding = 2000;

  void Send() {
    if (!outstanding_.Begin(kMaxOutstanding)) return;
    Connection& connection = *connections_[++sent_ % connections_.size()];
    connection.Reserve(NewReservation("flood"), steady_clock::now() + std::chrono::seconds(20),
                       [this](const absl::StatusOr<v1::ReserveResponse>& answer) {
                         (answer.ok() ? admitted_ : refused_).Add();
                         if (!answer.ok()) {
                           EXPECT_EQ(ReasonOf(answer.status()), Reason::kQuotaExceeded)
                               << answer.status();
                         }
                         outstanding_.End();
                       });
  }

  // Used by the thread of the pace alone.
  std::size_t sent_ = 0;
  Count admitted_;
  Count refused_;
  Outstanding outstanding_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::unique_ptr<PacedThread> pace_;
};

// IDEMPOTENCY_FLOOD_CYCLES: how many operations the other tenant completes during the flood. 400,
// in some seconds; for a longer run see docs/testing.md.
std::int64_t Cycles() {
  std::int64_t cycles = 400;
  const char* const wanted = std::getenv("IDEMPOTENCY_FLOOD_CYCLES");
  if (wanted != nullptr) EXPECT_TRUE(absl::SimpleAtoi(wanted, &cycles)) << wanted;
  return std::max<std::int64_t>(cycles, 1);
}

class FloodingTenant : public ::testing::Test {
 protected:
  void ExpectTheOtherIsServed(const std::string& store) {
    std::ofstream(folder_.File("config")) << FloodConfig();
    const testing::DaemonProcess daemon(store, {absl::StrCat("--config=", folder_.File("config"))});
    Tenant tenant(daemon.address());
    Flood flood(daemon.address());
    ASSERT_TRUE(flood.AwaitRefused(1)) << "no limit";
    ASSERT_TRUE(tenant.AwaitFurtherCycles(Cycles()));
    EXPECT_EQ(tenant.failures(), 0);
    // It was a flood, and the limit held.
    const std::int64_t refused = flood.refused();
    const std::int64_t admitted = flood.admitted();
    EXPECT_GT(refused, 5 * admitted);
    EXPECT_GT(admitted, 0);
    std::cout << "flood: refused " << refused << ", admitted " << admitted << "\n";
  }

  testing::TempFolder folder_;
};

TEST_F(FloodingTenant, EveryOperationOfTheOtherSucceedsOnSqlite) {
  ExpectTheOtherIsServed(absl::StrCat("sqlite:", folder_.File("records.db")));
}

TEST_F(FloodingTenant, EveryOperationOfTheOtherSucceedsOnPostgres) {
  const std::string store = testing::PostgresCluster::Shared().NewDatabase();
  testing::MigrateStore(store);
  ExpectTheOtherIsServed(store);
}

}  // namespace
}  // namespace idempotency::internal
