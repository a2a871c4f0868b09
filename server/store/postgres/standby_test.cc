// A synchronous standby that does not confirm: what is not on it is not answered.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/reply.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/options.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/testing/server_fixture.h"
#include "server/store/store_gauges.h"

namespace idempotency::internal {
namespace {

// Commits wait for a standby that does not exist, until they are cancelled.
class PostgresStandbyTest : public PostgresFaultTest {
 protected:
  void SetStandbys(const std::string& names) {
    ASSERT_TRUE(schema_->Execute("SET synchronous_commit TO local").ok());
    ASSERT_TRUE(
        schema_
            ->Execute(absl::StrCat("ALTER SYSTEM SET synchronous_standby_names TO '", names, "'"))
            .ok());
    ASSERT_TRUE(schema_->Execute("SELECT pg_reload_conf()").ok());
  }

  void TakeStandbyAway() {
    SetStandbys("nobody");
    // The server's processes read the setting one by one: others commit first until one waits.
    std::atomic<bool> one_waited{false};
    std::thread others([&] {
      pthread_setname_np(pthread_self(), "others");
      int number = 0;
      while (Reserve(OpFor(absl::StrCat("other-", number))).ok() && !one_waited) ++number;
    });
    AwaitTheWait();
    one_waited = true;
    CancelTheWait();
    others.join();
  }

  void AwaitTheWait() {
    EXPECT_TRUE(Await("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'", "1"));
  }

  void CancelTheWait() {
    AwaitTheWait();
    EXPECT_TRUE(schema_
                    ->Execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
                              " WHERE wait_event = 'SyncRep'")
                    .ok());
  }

  // Runs it until it waits for the standby, and then interrupts the wait.
  template <typename Call>
  void Cancelled(Call call) {
    std::thread caller([&] {
      pthread_setname_np(pthread_self(), "caller");
      call();
    });
    CancelTheWait();
    caller.join();
  }
};

class PostgresConfirmationTest : public PostgresStandbyTest,
                                 public ::testing::WithParamInterface<PostgresStatementMode> {
 protected:
  void SetUp() override {
    statements_ = GetParam();
    PostgresStandbyTest::SetUp();
  }
};

INSTANTIATE_TEST_SUITE_P(Statements, PostgresConfirmationTest,
                         ::testing::Values(PostgresStatementMode::kBatched,
                                           PostgresStatementMode::kSingleRow),
                         [](const ::testing::TestParamInfo<PostgresStatementMode>& mode) {
                           return mode.param == PostgresStatementMode::kBatched ? "Batched"
                                                                                : "SingleRow";
                         });

TEST_P(PostgresConfirmationTest, ACommitThatTheStandbyDidNotConfirmIsNotAnOk) {
  const ReserveOp op = OpFor("charge");
  const CompleteOp completion = CompletionOf(op, Reserve(op));
  TakeStandbyAway();
  // First the operation, then its repeat, which must not confirm it either.
  const ReserveOp next = OpFor("next");
  for (int i = 0; i < 2; ++i) {
    absl::StatusOr<Completion> completed = absl::UnknownError("did not run");
    Cancelled([&] { completed = Complete(completion); });
    EXPECT_EQ(ReasonOf(completed.status()), Reason::kStoreUnavailable) << i;
    absl::StatusOr<Verdict> granted = absl::UnknownError("did not run");
    Cancelled([&] { granted = Reserve(next); });
    EXPECT_EQ(ReasonOf(granted.status()), Reason::kStoreUnavailable) << i;
  }
  SetStandbys("");
  const auto repeated = Complete(completion);
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  EXPECT_TRUE(repeated->repeated);
  const auto granted = Reserve(next);
  ASSERT_TRUE(granted.ok()) << granted.status();
  ASSERT_TRUE(std::holds_alternative<Reserved>(*granted));
  EXPECT_TRUE(std::get<Reserved>(*granted).repeated);
}

// The warning is the only report of it.
TEST_P(PostgresConfirmationTest, ACommitIsNoOkEitherWhereTheLoginSilencesWarnings) {
  ASSERT_TRUE(schema_->Execute("ALTER ROLE CURRENT_USER SET client_min_messages TO error").ok());
  Open(cluster_->url());
  const ReserveOp op = OpFor("charge");
  const CompleteOp completion = CompletionOf(op, Reserve(op));
  TakeStandbyAway();
  absl::StatusOr<Completion> completed = absl::UnknownError("did not run");
  Cancelled([&] { completed = Complete(completion); });
  EXPECT_EQ(ReasonOf(completed.status()), Reason::kStoreUnavailable);
  SetStandbys("");
}

TEST_P(PostgresConfirmationTest, AReplyThatTheStandbyDidNotConfirmIsNotReplayed) {
  const ReserveOp op = OpFor("charge");
  const CompleteOp completion = CompletionOf(op, Reserve(op));
  TakeStandbyAway();
  Cancelled([&] { EXPECT_FALSE(Complete(completion).ok()); });
  ASSERT_EQ(schema_->Value("SELECT state FROM records WHERE key = 'charge'"), "2")
      << "everybody can see it now";

  ReserveOp again = op;
  again.request_token = Uuid::Random();
  absl::StatusOr<Verdict> answer = absl::UnknownError("did not run");
  Cancelled([&] { answer = Reserve(again); });
  EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable);
  // For people, the server's current state.
  GetOp look;
  look.id = op.id;
  EXPECT_TRUE(store_->Get({&look, 1}).at(0).ok());
  // For callers that waited, only records that the standby has too.
  look.confirmed = true;
  absl::StatusOr<Record> found = absl::UnknownError("did not run");
  Cancelled([&] { found = store_->Get({&look, 1}).at(0); });
  EXPECT_EQ(ReasonOf(found.status()), Reason::kStoreUnavailable);

  SetStandbys("");
  const auto replayed = Reserve(again);
  ASSERT_TRUE(replayed.ok()) << replayed.status();
  ASSERT_TRUE(std::holds_alternative<Replay>(*replayed));
  EXPECT_EQ(std::get<Replay>(*replayed).reply.bytes, completion.reply.bytes);
  found = store_->Get({&look, 1}).at(0);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->state, RecordState::kCompleted);
}

// A refusal discloses a record, too: a failover that reverts the record would make the refusal
// wrong.
TEST_P(PostgresConfirmationTest, NothingIsAnsweredAboutARecordThatTheStandbyDidNotConfirm) {
  TakeStandbyAway();
  const ReserveOp op = OpFor("charge");
  Cancelled([&] { EXPECT_FALSE(Reserve(op).ok()); });
  ASSERT_EQ(schema_->Value("SELECT state FROM records WHERE key = 'charge'"), "1")
      << "everybody can see it now";

  ReserveOp another = op;
  another.request_token = Uuid::Random();
  ReserveOp other = another;
  other.fingerprints = {{1, std::string(32, 'b')}};
  CompleteOp stale;
  stale.id = op.id;
  stale.key = op.key;
  stale.token = Uuid::Random();
  stale.reply = EncodeReply(v1::Reply());
  absl::StatusOr<Verdict> answer = absl::UnknownError("did not run");
  for (const ReserveOp& asked : {another, other}) {
    Cancelled([&] { answer = Reserve(asked); });
    EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable);
  }
  absl::StatusOr<Completion> completed = absl::UnknownError("did not run");
  Cancelled([&] { completed = Complete(stale); });
  EXPECT_EQ(ReasonOf(completed.status()), Reason::kStoreUnavailable);

  SetStandbys("");
  answer = Reserve(another);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(std::holds_alternative<InFlight>(*answer));
  answer = Reserve(other);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(std::holds_alternative<Mismatch>(*answer));
  EXPECT_EQ(ReasonOf(Complete(stale).status()), Reason::kReservationLost);
}

// Each abandoned call leaves a connection behind, which waits until the standby is available again.
TEST_F(PostgresStandbyTest, AbandonedConnectionsAreBounded) {
  statement_timeout_ = absl::Milliseconds(100);
  Open(cluster_->url());
  TakeStandbyAway();
  const std::string connections =
      "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'idempotencyd'"
      " AND pid <> pg_backend_pid()";
  const PostgresOptions defaults;
  // The connections of one wave, those that are tolerated before it, and one that is being opened.
  const int bound = 2 * defaults.connections + defaults.max_abandoned_sessions + 1;
  for (int round = 0; round < 10; ++round) {
    std::vector<std::thread> callers;
    for (int i = 0; i < defaults.connections; ++i) {
      callers.emplace_back([&, key = absl::StrCat("key-", round, "-", i)] {
        pthread_setname_np(pthread_self(), "caller");
        EXPECT_EQ(ReasonOf(Reserve(OpFor(key)).status()), Reason::kStoreUnavailable);
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_LE(std::stoi(schema_->Value(connections)), bound) << round;
  }
  EXPECT_FALSE(store_->Inspect().ok());
  SetStandbys("");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!store_->Inspect().ok() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(Reserve(OpFor("after")).ok());
}

// Reads succeed in either case, and no completion would be durable.
TEST_F(PostgresStandbyTest, AnInspectionFailsWhileNoCommitIsConfirmed) {
  ASSERT_TRUE(store_->Inspect().ok());
  TakeStandbyAway();
  PostgresOptions options = schema_->options();
  options.probe_timeout = absl::Milliseconds(300);
  options.lock_timeout = absl::Milliseconds(300);
  const auto probing = PostgresStore::Create(options).value();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(ReasonOf(probing->Inspect().status()), Reason::kStoreUnavailable) << i;
  }
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"),
            "1")
      << "the first waits with the row locked, the others at the lock";
  SetStandbys("");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  absl::StatusOr<StoreGauges> gauges = probing->Inspect();
  while (!gauges.ok() && std::chrono::steady_clock::now() < deadline) gauges = probing->Inspect();
  EXPECT_TRUE(gauges.ok()) << gauges.status();
}

}  // namespace
}  // namespace idempotency::internal
