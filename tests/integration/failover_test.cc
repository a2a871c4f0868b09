// Strict synchronous replication, with a real standby: every answer that the service has sent
// survives the loss of the primary, and a state that could be lost is never sent.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "tests/support/daemon_process.h"
#include "tests/support/health_watch.h"
#include "tests/support/metrics_page.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"
#include "tests/support/service_client.h"

namespace idempotency::internal {
namespace {

using testing::PostgresCluster;
using testing::SomeComplete;
using testing::SomeReserve;

// The folder in which psql would find the server.
std::string HostOf(const PostgresCluster& cluster) {
  const std::string url = cluster.url();
  return url.substr(url.find("host=") + 5);
}

class FailoverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    primary_ = PostgresCluster::Create().value();
    testing::MigrateStore(primary_->url());
    standby_ = PostgresCluster::CreateStandby(*primary_).value();
    testing::PostgresSchemaOptions bare;
    bare.migrate = false;
    at_primary_ = testing::PostgresSchema::Create(primary_->url(), bare).value();
    RunAtPrimary("SET synchronous_commit TO local");
    RunAtPrimary("ALTER SYSTEM SET synchronous_standby_names TO '*'");
    RunAtPrimary("SELECT pg_reload_conf()");
    Await("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'", "1");
    // An operator gives both; the daemon selects the one that accepts writes.
    daemon_ = std::make_unique<testing::DaemonProcess>(absl::StrCat(
        "postgresql://postgres@/postgres?host=", HostOf(*primary_), "%2C", HostOf(*standby_)));
    client_ = std::make_unique<testing::ServiceClient>(daemon_->address());
  }
  void TearDown() override {
    daemon_.reset();
    at_primary_.reset();
  }

  void RunAtPrimary(const std::string& sql) {
    const auto done = at_primary_->Execute(sql);
    ASSERT_TRUE(done.ok()) << done.status();
  }
  void Await(const std::string& sql, const std::string& value) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (at_primary_->Value(sql) != value) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << sql;
    }
  }
  // As when a statement is cancelled, a proxy cuts connections, or an operator does.
  void BreakTheWaitOff() {
    // Not that of the daemon's check whether commits are confirmed.
    const std::string waiting =
        " FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query NOT LIKE '%commit_probe%'";
    Await("SELECT count(*) > 0" + waiting, "t");
    RunAtPrimary("SELECT pg_cancel_backend(pid)" + waiting);
  }

  void AwaitWaiters(int count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (testing::MetricsPage::Fetch(daemon_->metrics_address()).Value("idempotency_waiters") !=
           count) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
  }

  // Until its answer is not STORE_UNAVAILABLE.
  template <typename Request>
  auto Persist(const Request& request) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    auto answer = client_->Call(request);
    while (ReasonOf(answer.status()) == Reason::kStoreUnavailable &&
           std::chrono::steady_clock::now() < deadline) {
      answer = client_->Call(request);
    }
    return answer;
  }

  void FailOver() {
    ASSERT_TRUE(primary_->StopImmediate().ok());
    ASSERT_TRUE(standby_->Start().ok());
    standby_->Promote();
  }

  std::unique_ptr<PostgresCluster> primary_;
  std::unique_ptr<PostgresCluster> standby_;
  std::unique_ptr<testing::PostgresSchema> at_primary_;
  std::unique_ptr<testing::DaemonProcess> daemon_;
  std::unique_ptr<testing::ServiceClient> client_;
};

TEST_F(FailoverTest, SentAnswersSurviveAndStatesThatCouldBeLostAreNotSent) {
  const auto granted = client_->Call(SomeReserve("acknowledged")).value();
  ASSERT_TRUE(
      client_->Call(SomeComplete("acknowledged", granted.reserved().reservation_token(), "first"))
          .ok());
  const auto untold = client_->Call(SomeReserve("untold")).value();
  const std::string token = untold.reserved().reservation_token();

  ASSERT_TRUE(standby_->StopImmediate().ok());
  std::thread completes([&] {
    pthread_setname_np(pthread_self(), "completes");
    const auto answer = client_->Call(SomeComplete("untold", token, "lost"));
    EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable);
  });
  BreakTheWaitOff();
  completes.join();
  Await("SELECT state FROM idempotency.records WHERE key = 'untold'", "2");

  // Every session can read it now; no caller receives it.
  std::thread retries([&] {
    pthread_setname_np(pthread_self(), "retries");
    const auto answer = client_->Call(SomeReserve("untold"));
    EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable);
  });
  BreakTheWaitOff();
  retries.join();

  FailOver();
  const auto replayed = Persist(SomeReserve("acknowledged"));
  ASSERT_TRUE(replayed.ok()) << replayed.status();
  EXPECT_EQ(replayed->replay().reply().body(), "first");
  // The reservation had been confirmed, its completion had not: it is applied now.
  const auto completed = Persist(SomeComplete("untold", token, "kept"));
  ASSERT_TRUE(completed.ok()) << completed.status();
  EXPECT_EQ(Persist(SomeReserve("untold"))->replay().reply().body(), "kept");
}

TEST_F(FailoverTest, ADuplicateThatWaitedIsAnsweredNothingThatTheStandbyDoesNotHave) {
  const auto first = client_->Call(SomeReserve("waited")).value();
  const std::string token = first.reserved().reservation_token();
  std::atomic<bool> replayed{false};
  std::string replay;
  std::thread duplicate([&] {
    pthread_setname_np(pthread_self(), "duplicate");
    v1::ReserveRequest waits = SomeReserve("waited");
    waits.mutable_max_wait()->set_seconds(20);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!replayed && std::chrono::steady_clock::now() < deadline) {
      const auto answer = client_->Call(waits);
      if (!answer.ok() || !answer->has_replay()) continue;
      replay = answer->replay().reply().body();
      replayed = true;
    }
  });
  AwaitWaiters(1);

  ASSERT_TRUE(standby_->StopImmediate().ok());
  std::thread completes([&] {
    pthread_setname_np(pthread_self(), "completes");
    EXPECT_EQ(ReasonOf(client_->Call(SomeComplete("waited", token, "done")).status()),
              Reason::kStoreUnavailable);
  });
  BreakTheWaitOff();
  completes.join();
  Await("SELECT state FROM idempotency.records WHERE key = 'waited'", "2");
  // Every session can read it now. The read for the duplicate waits for the standby, and returns no
  // answer when that wait is interrupted either.
  for (int i = 0; i < 2; ++i) BreakTheWaitOff();
  EXPECT_FALSE(replayed) << "a failover would take that back";

  ASSERT_TRUE(standby_->Start().ok());
  duplicate.join();
  EXPECT_TRUE(replayed);
  EXPECT_EQ(replay, "done");
  ASSERT_TRUE(primary_->StopImmediate().ok());
  standby_->Promote();
  EXPECT_EQ(Persist(SomeReserve("waited"))->replay().reply().body(), "done");
}

TEST_F(FailoverTest, HealthReportsWhetherCommitsAreConfirmed) {
  testing::HealthWatch health(daemon_->address());
  ASSERT_TRUE(health.AwaitServing(true));
  ASSERT_TRUE(standby_->StopImmediate().ok());
  EXPECT_TRUE(health.AwaitServing(false)) << "reads are answered";
  ASSERT_TRUE(standby_->Start().ok());
  EXPECT_TRUE(health.AwaitServing(true));
  EXPECT_TRUE(Persist(SomeReserve("after")).ok());
}

TEST_F(FailoverTest, HealthReportsWhetherThePrimaryWrites) {
  testing::HealthWatch health(daemon_->address());
  ASSERT_TRUE(health.AwaitServing(true));
  RunAtPrimary("SET default_transaction_read_only TO off");
  RunAtPrimary("ALTER SYSTEM SET default_transaction_read_only TO on");
  RunAtPrimary("SELECT pg_reload_conf()");
  EXPECT_TRUE(health.AwaitServing(false));
  RunAtPrimary("ALTER SYSTEM RESET default_transaction_read_only");
  RunAtPrimary("SELECT pg_reload_conf()");
  EXPECT_TRUE(health.AwaitServing(true));
}

TEST_F(FailoverTest, AReadOnlyServerIsNeverUsed) {
  ASSERT_TRUE(client_->Call(SomeReserve("before")).ok());
  ASSERT_TRUE(primary_->StopImmediate().ok());
  // The standby could answer reads, and its answers may be stale.
  const auto answer = client_->Call(testing::SomeGet("before"));
  EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable);
  standby_->Promote();
  EXPECT_TRUE(Persist(testing::SomeGet("before")).ok());
}

}  // namespace
}  // namespace idempotency::internal
