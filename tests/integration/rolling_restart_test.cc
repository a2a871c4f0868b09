// Two daemons behind one name are restarted, one after the other, under load:
// nobody who talks to them through a Connection sees it.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "client/channel_arguments.h"
#include "client/connection_factory.h"
#include "core/mutex.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/support/daemon_process.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/service_client.h"

namespace idempotency::testing {
namespace {

using std::chrono::seconds;

constexpr int kInFlight = 32;

Connection::Deadline In(std::chrono::steady_clock::duration wait) {
  return std::chrono::steady_clock::now() + wait;
}

// Reserves and completes, over and over, `kInFlight` records at a time.
class Cycles {
 public:
  explicit Cycles(Connection& connection) : connection_(connection) {
    for (int i = 0; i < kInFlight; ++i) Next();
  }
  // Waits for what is under way.
  ~Cycles() {
    MutexLock lock(mutex_);
    stopping_ = true;
    while (under_way_ > 0) changed_.Wait(lock);
  }

  int failed() const { return failed_; }
  int done() const { return done_; }
  // False after 20 s.
  bool AwaitMore(int count) {
    MutexLock lock(mutex_);
    const int wanted = done_ + count;
    const auto deadline = In(seconds(20));
    while (done_ < wanted && changed_.WaitUntil(lock, deadline)) {
    }
    return done_ >= wanted;
  }

 private:
  void Next() {
    std::string key;
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      ++under_way_;
      key = absl::StrCat("cycle-", ++keys_);
    }
    connection_.Reserve(SomeReserve(key), In(seconds(10)), [this, key](const auto& answer) {
      // A repeat that had been granted before is granted the same again: never
      // in_flight, which would be a token that was not kept.
      if (!answer.ok() || !answer->has_reserved()) {
        return End(answer.ok() ? answer->ShortDebugString() : answer.status().ToString());
      }
      connection_.Complete(SomeComplete(key, answer->reserved().reservation_token(), "reply"),
                           In(seconds(10)), [this](const auto& completed) {
                             End(completed.ok() ? "" : completed.status().ToString());
                           });
    });
  }
  void End(const std::string& failure) {
    if (!failure.empty()) ADD_FAILURE() << failure;
    ++(failure.empty() ? done_ : failed_);
    Next();
    MutexLock lock(mutex_);
    --under_way_;
    changed_.NotifyAll();
  }

  Connection& connection_;
  std::atomic<int> done_{0};
  std::atomic<int> failed_{0};
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  int keys_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Whether the channel has found `daemon`: calls take turns among those that it
// is connected to.
bool AwaitConnected(v1::IdempotencyService::Stub& stub, const DaemonProcess& daemon) {
  const auto deadline = In(seconds(20));
  while (std::chrono::steady_clock::now() < deadline) {
    grpc::ClientContext context;
    v1::GetResponse response;
    stub.Get(&context, SomeGet("nobody's"), &response);
    if (absl::EndsWith(context.peer(), daemon.address())) return true;
  }
  return false;
}

TEST(RollingRestartTest, SessionsMoveWithoutAFailedOperation) {
  auto cluster = PostgresCluster::Create().value();
  MigrateStore(cluster->url());
  DaemonProcess first(cluster->url());
  DaemonProcess second(cluster->url());
  const auto channel =
      grpc::CreateCustomChannel(absl::StrCat("ipv4:", first.address(), ",", second.address()),
                                grpc::InsecureChannelCredentials(), IdempotencydChannelArguments());
  const auto stub = v1::IdempotencyService::NewStub(channel);
  ConnectionOptions options;
  options.session.streams = 2;
  const auto connection = MakeConnection(channel, options);
  Cycles cycles(*connection);
  for (int round = 0; round < 2; ++round) {
    for (DaemonProcess* daemon : {&first, &second}) {
      // Whoever restarts daemons lets one come back before the next goes.
      ASSERT_TRUE(AwaitConnected(*stub, first));
      ASSERT_TRUE(AwaitConnected(*stub, second));
      ASSERT_TRUE(cycles.AwaitMore(200));
      EXPECT_EQ(daemon->Terminate().code, 0);
      ASSERT_TRUE(cycles.AwaitMore(200));
      daemon->Restart();
    }
  }
  EXPECT_TRUE(cycles.AwaitMore(200));
  EXPECT_EQ(cycles.failed(), 0);
}

// Connections that end by their age: a channel finds its daemons anew, and no operation
// notices.
TEST(RollingRestartTest, SessionsMoveFromConnectionsThatAreOldWithoutAFailedOperation) {
  auto cluster = PostgresCluster::Create().value();
  MigrateStore(cluster->url());
  const std::vector<std::string> ages = {"--max_connection_age=300ms", "--connection_grace=2s"};
  DaemonProcess first(cluster->url(), ages);
  DaemonProcess second(cluster->url(), ages);
  const auto channel =
      grpc::CreateCustomChannel(absl::StrCat("ipv4:", first.address(), ",", second.address()),
                                grpc::InsecureChannelCredentials(), IdempotencydChannelArguments());
  ConnectionOptions options;
  options.session.streams = 2;
  const auto connection = MakeConnection(channel, options);
  Cycles cycles(*connection);
  // Some ages of a connection, and of a session.
  const auto end = std::chrono::steady_clock::now() + seconds(6);
  while (std::chrono::steady_clock::now() < end) ASSERT_TRUE(cycles.AwaitMore(50));
  EXPECT_EQ(cycles.failed(), 0);
}

// kill -9: what was unanswered is asked for again, under the same tokens.
TEST(RollingRestartTest, AKilledDaemonLosesNothing) {
  auto cluster = PostgresCluster::Create().value();
  MigrateStore(cluster->url());
  DaemonProcess first(cluster->url());
  DaemonProcess second(cluster->url());
  const auto channel =
      grpc::CreateCustomChannel(absl::StrCat("ipv4:", first.address(), ",", second.address()),
                                grpc::InsecureChannelCredentials(), IdempotencydChannelArguments());
  const auto stub = v1::IdempotencyService::NewStub(channel);
  const auto connection = MakeConnection(channel);
  Cycles cycles(*connection);
  for (DaemonProcess* daemon : {&first, &second, &first, &second}) {
    ASSERT_TRUE(AwaitConnected(*stub, first));
    ASSERT_TRUE(AwaitConnected(*stub, second));
    ASSERT_TRUE(cycles.AwaitMore(100));
    daemon->Kill();
    ASSERT_TRUE(cycles.AwaitMore(100));
    daemon->Restart();
  }
  EXPECT_EQ(cycles.failed(), 0);
}

}  // namespace
}  // namespace idempotency::testing
