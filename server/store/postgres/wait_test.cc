// A statement that had to wait for another transaction decides by the row's content after the wait;
// one of many records by the time after it too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/testing/operations.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal {
namespace {

constexpr char kLockRows[] = "SELECT FROM records FOR UPDATE";
// Changes only the row's version. Postgres computes a row again after a wait if it was changed; if
// it was only locked, Postgres keeps the values that it had computed before.
constexpr char kNewVersion[] = "UPDATE records SET scope = scope";
constexpr char kEndLeases[] = "UPDATE records SET lease_until = clock_timestamp()";

// A statement that reads the clock waits for kHoldClock. So a step of a batched sweep can be held
// after its snapshot was taken and before it locks anything.
constexpr char kHeldClock[] = R"sql(
CREATE FUNCTION held_now() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(hashtextextended('held ' || current_schema, 0));
  RETURN {clock};
END $$
)sql";
constexpr char kHoldClock[] =
    "SELECT pg_advisory_xact_lock(hashtextextended('held ' || current_schema, 0))";

// For a record in the first walk of a sweep: its first statement is the one that reads it.
std::string OrderedKey() { return Uuid::TimeOrdered(absl::Now()).ToString(); }

class PostgresWaitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto schema = testing::PostgresSchema::Create(testing::TestPostgresUrl());
    ASSERT_TRUE(schema.ok()) << schema.status();
    schema_ = *std::move(schema);
    PostgresOptions options = schema_->options();
    Run(absl::StrReplaceAll(kHeldClock, {{"{clock}", options.clock_sql}}));
    options.clock_sql = absl::StrCat(options.schema, ".held_now()");
    options.statements = statements_;
    // For longer than a test holds a lock, also of a wait that is brief.
    options.statement_timeout = absl::Hours(1);
    options.lock_timeout = absl::Hours(1);
    auto store = PostgresStore::Create(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  void Run(const std::string& sql) { ASSERT_TRUE(schema_->Execute(sql).ok()) << sql; }
  absl::StatusOr<Verdict> Reserve(const ReserveOp& op) { return store_->Reserve({&op, 1}).at(0); }

  // Lets `call` run into the locks that `lock` takes; then runs `meanwhile` and ends that
  // transaction with `end`. Records the time at which `call` was seen to wait.
  template <typename Call>
  void RunBehind(const std::string& lock, Call call, const std::string& meanwhile,
                 const std::string& end = "COMMIT") {
    Run(absl::StrCat("BEGIN; ", lock));
    std::thread caller([&call] {
      pthread_setname_np(pthread_self(), "caller");
      call();
    });
    EXPECT_TRUE(AwaitWaiting());
    waited_at_ = schema_->Value("SELECT clock_timestamp()");
    Run(absl::StrCat(meanwhile, "; ", end));
    caller.join();
  }
  // The result of `sql` for a time and a moment at which the call still waited.
  std::string AfterTheWait(const std::string& time, const std::string& from) {
    return schema_->Value(absl::StrCat("SELECT ", time, " >= '", waited_at_, "' FROM ", from));
  }

  PostgresStatementMode statements_ = PostgresStatementMode::kBatched;
  std::unique_ptr<testing::PostgresSchema> schema_;
  std::unique_ptr<PostgresStore> store_;

 private:
  bool AwaitWaiting() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (schema_->Value("SELECT count(*) > 0 FROM pg_locks WHERE NOT granted"
                          " AND pg_backend_pid() = ANY (pg_blocking_pids(pid))") != "t") {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::string waited_at_;
};

TEST_F(PostgresWaitTest, ATakeOversLeaseBeginsAfterTheWait) {
  const ReserveOp op = ReserveNamed("charge");
  ASSERT_TRUE(Reserve(op).ok());
  Run(kEndLeases);
  absl::StatusOr<Verdict> verdict = absl::UnknownError("did not run");
  RunBehind(
      kLockRows, [&] { verdict = Reserve(op); }, kNewVersion);
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  ASSERT_TRUE(std::holds_alternative<Reserved>(*verdict));
  EXPECT_EQ(std::get<Reserved>(*verdict).attempt, 2u);
  const std::string begins =
      absl::StrCat("lease_until - interval '", absl::ToInt64Seconds(op.lease), " seconds'");
  EXPECT_EQ(AfterTheWait(begins, "records"), "t");
}

TEST_F(PostgresWaitTest, AnExtensionIsCountedFromAfterTheWait) {
  const ReserveOp op = ReserveNamed("charge");
  const auto granted = Reserve(op);
  ASSERT_TRUE(granted.ok()) << granted.status();
  ExtendOp extension{op.key, op.id, std::get<Reserved>(*granted).token, limits::kDefaultLease,
                     std::nullopt};
  extension.lease = absl::Minutes(10);
  absl::StatusOr<Extension> extended = absl::UnknownError("did not run");
  RunBehind(
      kLockRows,
      [&] {
        extended = store_->Extend({&extension, 1}).at(0);
      },
      kNewVersion);
  EXPECT_TRUE(extended.ok()) << extended.status();
  EXPECT_EQ(AfterTheWait("lease_until - interval '600 seconds'", "records"), "t");
}

// Each row of a batch gets the time of its own turn.
TEST_F(PostgresWaitTest, ARowBehindOneThatWaitedIsMadeAfterTheWait) {
  std::vector<ReserveOp> ops = {ReserveNamed("one"), ReserveNamed("two")};
  if (ops[1].id < ops[0].id) std::swap(ops[0], ops[1]);
  const std::string insert = absl::StrCat(
      "INSERT INTO records (id, namespace, scope, operation, key, state, require_recovery, attempt,"
      " token, created_at, lease_until, expires_at, fingerprints) VALUES ('",
      ops[0].id.ToString(),
      "', 'n', 's', 'o', 'k', 1, false, 1, gen_random_uuid(), now(), now(), now(), 'f')");
  std::vector<absl::StatusOr<Verdict>> verdicts;
  RunBehind(
      insert, [&] { verdicts = store_->Reserve(ops); }, "SELECT", "ROLLBACK");
  ASSERT_EQ(verdicts.size(), 2u);
  for (const auto& verdict : verdicts) EXPECT_TRUE(verdict.ok()) << verdict.status();
  const std::string second = absl::StrCat("records WHERE id = '", ops[1].id.ToString(), "'");
  EXPECT_EQ(AfterTheWait("created_at", second), "t");
  EXPECT_EQ(AfterTheWait("lease_until - interval '30 seconds'", second), "t");
}

TEST_F(PostgresWaitTest, ARecordThatEndsDuringTheWaitIsNotCompleted) {
  const ReserveOp op = ReserveNamed("charge");
  const auto granted = Reserve(op);
  ASSERT_TRUE(granted.ok()) << granted.status();
  const CompleteOp completion{op.key, op.id, std::get<Reserved>(*granted).token,
                              EncodeReply(v1::Reply())};
  absl::StatusOr<Completion> answer = absl::UnknownError("did not run");
  RunBehind(
      kLockRows,
      [&] {
        answer = store_->Complete({&completion, 1}).at(0);
      },
      "UPDATE records SET lease_until = clock_timestamp(), expires_at = clock_timestamp()");
  EXPECT_EQ(ReasonOf(answer.status()), Reason::kReservationLost);
}

class PostgresChangedRowTest : public PostgresWaitTest,
                               public ::testing::WithParamInterface<PostgresStatementMode> {
 protected:
  void SetUp() override {
    statements_ = GetParam();
    PostgresWaitTest::SetUp();
  }
  // Holds a step of the sweep between its reads and its writes. Its statements for one record wait
  // for the row; those for many leave out a row that is locked.
  const char* HoldSweep() const {
    return GetParam() == PostgresStatementMode::kBatched ? kHoldClock : kLockRows;
  }
  // A step of the sweep, between whose reads and writes the rows are changed.
  absl::StatusOr<SweepProgress> SweepUnder(const std::string& change) {
    absl::StatusOr<SweepProgress> swept = absl::UnknownError("did not run");
    RunBehind(
        HoldSweep(), [&] { swept = store_->Sweep({}); }, change);
    return swept;
  }
};

INSTANTIATE_TEST_SUITE_P(Statements, PostgresChangedRowTest,
                         ::testing::Values(PostgresStatementMode::kBatched,
                                           PostgresStatementMode::kSingleRow),
                         [](const ::testing::TestParamInfo<PostgresStatementMode>& mode) {
                           return mode.param == PostgresStatementMode::kBatched ? "Batched"
                                                                                : "SingleRow";
                         });

TEST_P(PostgresChangedRowTest, AHeartbeatDuringTheWaitKeepsTheLease) {
  const ReserveOp op = ReserveNamed("charge");
  ASSERT_TRUE(Reserve(op).ok());
  Run(kEndLeases);
  absl::StatusOr<Verdict> verdict = absl::UnknownError("did not run");
  RunBehind(
      kLockRows, [&] { verdict = Reserve(op); },
      "UPDATE records SET lease_until = clock_timestamp() + interval '1 hour'");
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_TRUE(std::holds_alternative<InFlight>(*verdict));
}

// The other attempt's lease is over by then, too.
TEST_P(PostgresChangedRowTest, AnotherAttemptDuringTheWaitIsSeen) {
  const ReserveOp op = ReserveNamed("charge");
  ASSERT_TRUE(Reserve(op).ok());
  Run(kEndLeases);
  absl::StatusOr<Verdict> verdict = absl::UnknownError("did not run");
  RunBehind(
      kLockRows, [&] { verdict = Reserve(op); },
      "UPDATE records SET attempt = attempt + 1, token = gen_random_uuid()");
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  ASSERT_TRUE(std::holds_alternative<Reserved>(*verdict));
  EXPECT_EQ(std::get<Reserved>(*verdict).attempt, 3u);
  EXPECT_EQ(schema_->Value("SELECT attempt FROM records"), "3");
}

// The attempt that has sent it goes on.
TEST_P(PostgresChangedRowTest, AHeartbeatDuringTheWaitOfAResolutionKeepsTheAttempt) {
  const ReserveOp op = ReserveNamed("charge");
  ASSERT_TRUE(Reserve(op).ok());
  Run(kEndLeases);
  ResolveOp resolve;
  resolve.key = op.key;
  resolve.id = op.id;
  resolve.expected_attempt = 1;
  resolve.note = {"alice", "ticket 42"};
  absl::StatusOr<Resolution> resolved = absl::UnknownError("did not run");
  RunBehind(
      kLockRows, [&] { resolved = store_->Resolve(resolve); },
      "UPDATE records SET lease_until = clock_timestamp() + interval '1 hour'");
  EXPECT_EQ(ReasonOf(resolved.status()), Reason::kForceRequired) << resolved.status();
  EXPECT_EQ(schema_->Value("SELECT state FROM records"), "1");
}

// A step of the sweep reads rows and then changes them by that snapshot; here the rows change in
// between.

TEST_P(PostgresChangedRowTest, ARecordThatIsRevivedUnderTheSweepStays) {
  const ReserveOp op = ReserveNamed(OrderedKey());
  ASSERT_TRUE(Reserve(op).ok());
  Run("UPDATE records SET created_at = created_at - interval '40 days',"
      " lease_until = lease_until - interval '40 days',"
      " expires_at = expires_at - interval '40 days'");
  const absl::StatusOr<SweepProgress> swept =
      SweepUnder("UPDATE records SET expires_at = clock_timestamp() + interval '1 hour'");
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->removed, 0);
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM records"), "1");
}

TEST_P(PostgresChangedRowTest, AHeartbeatUnderTheSweepKeepsTheReservation) {
  ReserveOp op = ReserveNamed(OrderedKey());
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  ASSERT_TRUE(Reserve(op).ok());
  Run(kEndLeases);
  const absl::StatusOr<SweepProgress> swept =
      SweepUnder("UPDATE records SET lease_until = clock_timestamp() + interval '1 hour'");
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->marked_unknown, 0);
  EXPECT_EQ(schema_->Value("SELECT state FROM records"), "1");
}

// A recorded outcome must not become unknown.
TEST_P(PostgresChangedRowTest, ACompletionUnderTheSweepStays) {
  ReserveOp op = ReserveNamed(OrderedKey());
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  ASSERT_TRUE(Reserve(op).ok());
  Run(kEndLeases);
  const absl::StatusOr<SweepProgress> swept = SweepUnder(
      "UPDATE records SET state = 2, completed_at = clock_timestamp(), reply = 'r',"
      " reply_digest = sha256('r')");
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->marked_unknown, 0);
  EXPECT_EQ(schema_->Value("SELECT state FROM records"), "2");
}

TEST_P(PostgresChangedRowTest, ARecordThatIsRevivedUnderTheSweepIsNotReducedToItsTombstone) {
  const ReserveOp op = ReserveNamed(OrderedKey());
  ASSERT_TRUE(Reserve(op).ok());
  Run("UPDATE records SET lease_until = created_at - interval '1 hour',"
      " expires_at = created_at - interval '1 hour',"
      " tombstone_until = created_at + interval '1 day'");
  const absl::StatusOr<SweepProgress> swept =
      SweepUnder("UPDATE records SET expires_at = clock_timestamp() + interval '1 hour'");
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->entombed, 0);
  EXPECT_EQ(schema_->Value("SELECT octet_length(fingerprints) > 0 FROM records"), "t");
}

// The same of a step that ends the UNKNOWN records of a namespace.
class PostgresEndUnknownTest : public PostgresChangedRowTest {
 protected:
  // How many a step ends, while the one record, UNKNOWN for long enough, becomes another.
  std::int64_t EndsUnder(const std::string& meanwhile) {
    const ReserveOp op = ReserveNamed("charge");
    const auto granted = Reserve(op);
    EXPECT_TRUE(granted.ok()) << granted.status();
    if (!granted.ok()) return -1;
    ReleaseOp release;
    release.key = op.key;
    release.id = op.id;
    release.token = std::get<Reserved>(*granted).token;
    release.outcome_unknown = true;
    EXPECT_TRUE(store_->Release({&release, 1}).at(0).ok());
    Run("UPDATE records SET created_at = created_at - interval '2 hours',"
        " lease_until = lease_until - interval '2 hours'");
    EndUnknownOp end;
    end.name_space = op.key.name_space;
    end.life = absl::Hours(1);
    absl::StatusOr<EndUnknownStep> step = absl::UnknownError("did not run");
    RunBehind(
        HoldSweep(), [&] { step = store_->EndUnknown(end); }, meanwhile);
    EXPECT_TRUE(step.ok()) << step.status();
    return step.ok() ? step->ended : -1;
  }
};

INSTANTIATE_TEST_SUITE_P(Statements, PostgresEndUnknownTest,
                         ::testing::Values(PostgresStatementMode::kBatched,
                                           PostgresStatementMode::kSingleRow),
                         [](const ::testing::TestParamInfo<PostgresStatementMode>& mode) {
                           return mode.param == PostgresStatementMode::kBatched ? "Batched"
                                                                                : "SingleRow";
                         });

TEST_P(PostgresEndUnknownTest, EndsARecordThatStays) { EXPECT_EQ(EndsUnder("SELECT"), 1); }

TEST_P(PostgresEndUnknownTest, ACompletionUnderTheEndOfAnUnknownOutcomeStays) {
  EXPECT_EQ(EndsUnder("UPDATE records SET state = 2, watched = false,"
                      " completed_at = clock_timestamp(), reply = 'r', reply_digest = sha256('r')"),
            0);
  EXPECT_EQ(schema_->Value("SELECT state = 2 AND reply IS NOT NULL FROM records"), "t");
}

// Another attempt has been granted, and has ended so too.
TEST_P(PostgresEndUnknownTest, ARecordThatIsUnknownAnewStays) {
  EXPECT_EQ(EndsUnder("UPDATE records SET lease_until = clock_timestamp()"), 0);
  EXPECT_EQ(schema_->Value("SELECT state FROM records"), "4");
}

}  // namespace
}  // namespace idempotency::internal
