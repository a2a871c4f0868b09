// One statement and one commit for each record: what fails one does not affect the others of its
// pipeline, and what a lost node leaves open is repeated with the same tokens.
#include "server/store/postgres/statements/single_row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "server/store/limits.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/schema/distribution.h"
#include "server/store/postgres/schema/migrator.h"
#include "server/store/postgres/single_row/orphans.h"
#include "server/store/postgres/testing/reply_replacer.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Inserting the key fails as `body` does.
constexpr char kFailingKey[] = R"sql(
CREATE SEQUENCE failures;
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  {body};
  RETURN NEW;
END $$;
CREATE TRIGGER failing BEFORE INSERT ON records
  FOR EACH ROW WHEN (NEW.key = '{key}') EXECUTE FUNCTION fail()
)sql";

ReserveOp OpFor(const std::string& key) {
  ReserveOp op;
  op.key = {"payments", "tenant-1", "/payments.v1.Payments/Charge", key};
  op.id = RecordIdFor(op.key);
  op.fingerprints = {{1, std::string(32, 'a')}};
  op.request_token = Uuid::Random();
  op.on_lease_expiry = LeaseExpiry::kTakeOver;
  return op;
}

CompleteOp CompletionOf(const ReserveOp& op, const absl::StatusOr<Verdict>& verdict) {
  v1::Reply reply;
  reply.set_body("paid");
  return {op.key, op.id, std::get<Reserved>(*verdict).token, EncodeReply(reply)};
}

bool IsReserved(const absl::StatusOr<Verdict>& verdict) {
  return verdict.ok() && std::holds_alternative<Reserved>(*verdict);
}

class PostgresSingleRowTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto schema = testing::PostgresSchema::Create(testing::TestPostgresUrl(),
                                                  {/*migrate=*/true, /*test_clock=*/true});
    ASSERT_TRUE(schema.ok()) << schema.status();
    schema_ = *std::move(schema);
    options_ = schema_->options();
    options_.statements = PostgresStatementMode::kSingleRow;
    options_.connections = 1;
    Open();
  }
  void Open() {
    store_.reset();
    auto store = PostgresStore::Create(options_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  void Run(const std::string& sql) { ASSERT_TRUE(schema_->Execute(sql).ok()) << sql; }
  void FailAt(const std::string& key, const std::string& body) {
    Run(absl::StrReplaceAll(kFailingKey, {{"{key}", key}, {"{body}", body}}));
  }
  void FailNoMore() { Run("DROP TRIGGER failing ON records"); }

  absl::StatusOr<Verdict> Reserve(const ReserveOp& op) { return store_->Reserve({&op, 1}).at(0); }
  // For longer than a test holds one.
  void WaitForLocks() {
    options_.statement_timeout = absl::Hours(1);
    options_.lock_timeout = absl::Hours(1);
    Open();
  }
  // Until another connection waits for a row that the schema's connection has locked. False: none
  // does.
  [[nodiscard]] bool AwaitWaiting() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (schema_->Value("SELECT count(*) > 0 FROM pg_locks WHERE NOT granted"
                          " AND pg_backend_pid() = ANY (pg_blocking_pids(pid))") != "t") {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  PostgresOptions options_;
  std::unique_ptr<testing::PostgresSchema> schema_;
  std::unique_ptr<PostgresStore> store_;
};

// More than one pipeline.
std::vector<ReserveOp> Many() {
  std::vector<ReserveOp> ops;
  for (std::size_t i = 0; i < 2 * PostgresConnection::kPipelined + 1; ++i) {
    ops.push_back(OpFor(absl::StrCat("key-", i)));
  }
  return ops;
}

TEST_F(PostgresSingleRowTest, EachRecordIsACommitOfItsOwn) {
  const std::vector<ReserveOp> ops = Many();
  std::vector<CompleteOp> completions;
  for (const auto& verdict : store_->Reserve(ops)) {
    ASSERT_TRUE(IsReserved(verdict)) << verdict.status();
    completions.push_back(CompletionOf(ops[completions.size()], verdict));
  }
  const std::string all = absl::StrCat(ops.size());
  EXPECT_EQ(schema_->Value("SELECT count(DISTINCT xmin::text) FROM records"), all);
  for (const auto& completion : store_->Complete(completions)) EXPECT_TRUE(completion.ok());
  EXPECT_EQ(schema_->Value("SELECT count(DISTINCT xmin::text) FROM records WHERE state = 2"), all);
}

// As a distributed server reports a node that is away: its own connection continues.
TEST_F(PostgresSingleRowTest, OnlyTheRecordOfALostNodeIsNotAnswered) {
  const std::vector<ReserveOp> ops = Many();
  FailAt("key-7", "RAISE EXCEPTION 'no node' USING ERRCODE = '08006'");
  const auto verdicts = store_->Reserve(ops);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (i == 7) {
      EXPECT_EQ(ReasonOf(verdicts[i].status()), Reason::kStoreUnavailable);
    } else {
      EXPECT_TRUE(IsReserved(verdicts[i])) << i << verdicts[i].status();
    }
  }
  EXPECT_EQ(store_->connections().broken, 0) << "the connection stays";
  FailNoMore();
  const auto repeated = store_->Reserve(ops);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    ASSERT_TRUE(IsReserved(repeated[i])) << repeated[i].status();
    EXPECT_EQ(std::get<Reserved>(*repeated[i]).repeated, i != 7);
    EXPECT_EQ(std::get<Reserved>(*repeated[i]).attempt, 1u);
  }
}

TEST_F(PostgresSingleRowTest, ADeadlockIsRepeatedHere) {
  FailAt("key-7",
         "IF nextval('failures') < 3 THEN RAISE EXCEPTION 'x' USING ERRCODE = '40P01'; END IF");
  for (const auto& verdict : store_->Reserve(Many())) EXPECT_TRUE(IsReserved(verdict));
  EXPECT_EQ(schema_->Value("SELECT last_value FROM failures"), "3");
}

TEST_F(PostgresSingleRowTest, ADeadlockThatDoesNotEndIsTheCallersToRepeat) {
  FailAt("key-7", "RAISE EXCEPTION 'x' USING ERRCODE = '40P01'");
  const std::vector<ReserveOp> ops = Many();
  const auto verdicts = store_->Reserve(ops);
  EXPECT_EQ(ReasonOf(verdicts[7].status()), Reason::kStoreUnavailable);
  EXPECT_TRUE(IsReserved(verdicts[8]));
  FailNoMore();
  EXPECT_TRUE(IsReserved(Reserve(ops[7])));
}

TEST_F(PostgresSingleRowTest, WhatALostConnectionLeavesOpenIsRepeatedWithTheSameTokens) {
  const std::vector<ReserveOp> ops = Many();
  FailAt("key-7", "PERFORM pg_terminate_backend(pg_backend_pid())");
  const auto verdicts = store_->Reserve(ops);
  std::size_t unanswered = 0;
  for (const auto& verdict : verdicts) {
    if (verdict.ok()) continue;
    EXPECT_EQ(ReasonOf(verdict.status()), Reason::kStoreUnavailable);
    ++unanswered;
  }
  EXPECT_GT(unanswered, 0u);
  FailNoMore();
  const auto repeated = store_->Reserve(ops);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    ASSERT_TRUE(IsReserved(repeated[i])) << repeated[i].status();
    EXPECT_EQ(std::get<Reserved>(*repeated[i]).attempt, 1u);
    if (!verdicts[i].ok()) continue;
    EXPECT_EQ(std::get<Reserved>(*repeated[i]).token, std::get<Reserved>(*verdicts[i]).token);
  }
}

TEST_F(PostgresSingleRowTest, ALockedRowFailsAloneAndIsNotWaitedForAgain) {
  options_.lock_timeout = absl::Milliseconds(50);
  options_.locked_pause = absl::Hours(1);
  Open();
  const std::vector<ReserveOp> ops = Many();
  for (const auto& verdict : store_->Reserve(ops)) ASSERT_TRUE(IsReserved(verdict));
  schema_->Advance(limits::kDefaultLease);
  Run("BEGIN; SELECT FROM records WHERE key = 'key-7' FOR UPDATE");
  std::vector<ReserveOp> next = ops;
  for (ReserveOp& op : next) op.request_token = Uuid::Random();
  const auto verdicts = store_->Reserve(next);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (i == 7) {
      EXPECT_THAT(std::string(verdicts[i].status().message()), HasSubstr("has locked"));
    } else {
      ASSERT_TRUE(IsReserved(verdicts[i])) << verdicts[i].status();
      EXPECT_EQ(std::get<Reserved>(*verdicts[i]).attempt, 2u);
    }
  }
  Run("COMMIT");
  EXPECT_FALSE(Reserve(next[7]).ok()) << "not tried for a while";
}

// Rows of a batch that another connection has locked, the first ones in the order of the
// statements.
class PostgresLockedRowsOfManyTest : public PostgresSingleRowTest {
 protected:
  void SetUp() override {
    PostgresSingleRowTest::SetUp();
    options_.lock_timeout = absl::Seconds(1);
    options_.statement_timeout = absl::Seconds(2);
    options_.reply_grace = absl::Milliseconds(100);
    options_.locked_pause = absl::Hours(1);
    Open();
    std::sort(ops_.begin(), ops_.end(),
              [](const ReserveOp& a, const ReserveOp& b) { return a.id < b.id; });
    for (const auto& verdict : store_->Reserve(ops_)) ASSERT_TRUE(IsReserved(verdict));
    schema_->Advance(limits::kDefaultLease);
    for (ReserveOp& op : ops_) op.request_token = Uuid::Random();
  }
  void Lock(std::size_t rows) {
    Run(absl::StrCat("BEGIN; SELECT FROM (SELECT id FROM records ORDER BY id LIMIT ", rows,
                     ") s JOIN records r USING (id) FOR UPDATE OF r"));
  }
  // Together the waits are longer than the time in which one statement is answered, and shorter
  // than one wait for each row.
  std::vector<absl::StatusOr<Verdict>> ReserveInTime() {
    const absl::Time begin = absl::Now();
    std::vector<absl::StatusOr<Verdict>> verdicts = store_->Reserve(ops_);
    EXPECT_LT(absl::Now() - begin, 8 * options_.lock_timeout);
    EXPECT_EQ(store_->connections().broken, 0) << "the connection stays";
    return verdicts;
  }

  std::vector<ReserveOp> ops_ = Many();
};

TEST_F(PostgresLockedRowsOfManyTest, LeaveNoneOfTheOthersInDoubt) {
  constexpr std::size_t kLocked = 60;
  Lock(kLocked);
  const auto verdicts = ReserveInTime();
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    EXPECT_EQ(IsReserved(verdicts[i]), i >= kLocked) << i;
    if (i >= kLocked) continue;
    EXPECT_THAT(std::string(verdicts[i].status().message()), HasSubstr("has locked")) << i;
  }
  Run("COMMIT");
  EXPECT_FALSE(Reserve(ops_[kLocked - 1]).ok()) << "not tried for a while";
}

TEST_F(PostgresLockedRowsOfManyTest, APipelineOfThemEndsTheBatch) {
  Lock(PostgresConnection::kPipelined);
  const auto verdicts = ReserveInTime();
  for (const auto& verdict : verdicts) {
    EXPECT_EQ(ReasonOf(verdict.status()), Reason::kStoreUnavailable);
  }
  Run("COMMIT");
  EXPECT_FALSE(Reserve(ops_.front()).ok()) << "not tried for a while";
  EXPECT_TRUE(IsReserved(Reserve(ops_.back()))) << "it was not sent, and is not taken for locked";
}

// An ordinary lock: another replica inserts the same keys, and its commit waits for a standby.
class PostgresSlowCommitTest : public PostgresSingleRowTest {
 protected:
  // More than a part of the lock timeout, less than all of it, on a slow machine too.
  static constexpr absl::Duration kCommit = absl::Milliseconds(1500);

  void SetUp() override {
    PostgresSingleRowTest::SetUp();
    options_.statement_timeout = absl::Seconds(60);
    options_.lock_timeout = absl::Seconds(15);
    options_.locked_pause = absl::Hours(1);
    Open();
  }
  // Meanwhile another connection holds what `sql` locks.
  std::vector<absl::StatusOr<Verdict>> ReserveBehind(const std::string& sql,
                                                     const std::vector<ReserveOp>& ops) {
    Run(absl::StrCat("BEGIN; ", sql));
    std::vector<absl::StatusOr<Verdict>> verdicts;
    std::thread caller([&] {
      pthread_setname_np(pthread_self(), "caller");
      verdicts = store_->Reserve(ops);
    });
    EXPECT_TRUE(AwaitWaiting());
    absl::SleepFor(kCommit);
    Run("COMMIT");
    caller.join();
    return verdicts;
  }
  // The insert of another replica for the same calls.
  std::string InsertOf(std::vector<ReserveOp> ops) {
    for (ReserveOp& op : ops) op.request_token = Uuid::Random();
    for (const auto& verdict : store_->Reserve(ops)) EXPECT_TRUE(IsReserved(verdict));
    Run("CREATE TABLE copies AS SELECT * FROM records; DELETE FROM records");
    return "INSERT INTO records SELECT * FROM copies";
  }
};

TEST_F(PostgresSlowCommitTest, ADuplicateIsAnswered) {
  const std::vector<ReserveOp> ops = {OpFor("charge")};
  const auto verdicts = ReserveBehind(InsertOf(ops), ops);
  ASSERT_TRUE(verdicts[0].ok()) << verdicts[0].status();
  EXPECT_TRUE(std::holds_alternative<InFlight>(*verdicts[0]));
}

TEST_F(PostgresSlowCommitTest, SoAreManyOfABatch) {
  const std::vector<ReserveOp> ops = Many();
  const std::vector<ReserveOp> duplicates(ops.begin(), ops.begin() + 20);
  const auto verdicts = ReserveBehind(InsertOf(duplicates), ops);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    ASSERT_TRUE(verdicts[i].ok()) << i << verdicts[i].status();
    EXPECT_EQ(std::holds_alternative<InFlight>(*verdicts[i]), i < duplicates.size()) << i;
  }
}

// For the time for which a step of a migration waits, with all traffic behind it.
TEST_F(PostgresSlowCommitTest, NoneFailsBehindAMigration) {
  options_.lock_timeout = kCommit * (PostgresOptions().lock_timeout / kMigrationLockTimeout);
  Open();
  const auto verdicts = ReserveBehind("LOCK TABLE records IN ACCESS EXCLUSIVE MODE", Many());
  for (const auto& verdict : verdicts) EXPECT_TRUE(IsReserved(verdict)) << verdict.status();
}

// Where each record takes several statements, one after the other.
class PostgresLockedLoopTest : public PostgresSingleRowTest {
 protected:
  static constexpr int kRows = 20;

  void SetUp() override {
    PostgresSingleRowTest::SetUp();
    options_.lock_timeout = absl::Seconds(1);
    Open();
    for (int i = 0; i < kRows; ++i) {
      ops_.push_back(OpFor(absl::StrCat("key-", i)));
      const auto granted = Reserve(ops_.back());
      ASSERT_TRUE(IsReserved(granted));
      completions_.push_back(CompletionOf(ops_.back(), granted));
    }
  }
  template <typename Call>
  void ExpectFewWaits(Call call) {
    Run("BEGIN; SELECT FROM records FOR UPDATE");
    const absl::Time begin = absl::Now();
    call();
    // A few waits, and not one for each row.
    EXPECT_LT(absl::Now() - begin, absl::Seconds(8));
    Run("COMMIT");
  }

  std::vector<ReserveOp> ops_;
  std::vector<CompleteOp> completions_;
};

TEST_F(PostgresLockedLoopTest, HeartbeatsWithCheckpoints) {
  std::vector<ExtendOp> extensions;
  for (const CompleteOp& held : completions_) {
    extensions.push_back({held.key, held.id, held.token, absl::Minutes(1), "half"});
  }
  ExpectFewWaits([&] {
    for (const auto& extended : store_->Extend(extensions)) {
      EXPECT_EQ(ReasonOf(extended.status()), Reason::kStoreUnavailable);
    }
  });
}

TEST_F(PostgresLockedLoopTest, APurge) {
  PurgeOp op;
  op.name_space = ops_[0].key.name_space;
  op.force = true;
  op.note = {"alice", "ticket 42"};
  ExpectFewWaits([&] {
    const auto step = store_->Purge(op);
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_EQ(step->busy, kRows);
  });
}

TEST_F(PostgresLockedLoopTest, SealingAnew) {
  for (const auto& completed : store_->Complete(completions_)) ASSERT_TRUE(completed.ok());
  ReplyReplacer sealer;
  ResealOp op;
  op.name_space = ops_[0].key.name_space;
  op.sealer = &sealer;
  op.note = {"alice", "ticket 42"};
  ExpectFewWaits([&] {
    const auto step = store_->Reseal(op);
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_EQ(step->busy, kRows);
  });
}

// A distributed server's nodes have no lock timeout: the statement's own ends the wait there.
TEST_F(PostgresSingleRowTest, StatementsThatTheServerEndsLeaveNoneOfTheOthersInDoubt) {
  options_.statement_timeout = absl::Milliseconds(400);
  options_.reply_grace = absl::Milliseconds(200);
  Open();
  FailAt("slow' OR NEW.key LIKE 'slow-%", "PERFORM pg_sleep(20)");
  std::vector<ReserveOp> ops;
  for (const char* const key : {"slow-1", "1", "slow-2", "2", "slow-3", "3"}) {
    ops.push_back(OpFor(key));
  }
  const auto verdicts = store_->Reserve(ops);
  EXPECT_EQ(store_->connections().broken, 0) << "the connection stays";
  for (std::size_t i = 0; i < ops.size(); ++i) {
    EXPECT_EQ(IsReserved(verdicts[i]), i % 2 == 1) << i;
    if (!verdicts[i].ok()) EXPECT_EQ(ReasonOf(verdicts[i].status()), Reason::kStoreUnavailable);
  }
}

class PostgresClockMarginTest : public PostgresSingleRowTest {
 protected:
  static constexpr absl::Duration kMargin = absl::Seconds(2);

  void SetUp() override {
    PostgresSingleRowTest::SetUp();
    options_.clock_margin = kMargin;
    Open();
  }
  // To the last moment of the margin after `duration`.
  void AdvanceByAlmost(absl::Duration duration) {
    schema_->Advance(duration + kMargin - absl::Microseconds(1));
  }
  void EndMargin() { schema_->Advance(absl::Microseconds(1)); }
};

// By a clock that is behind, the lease of another node's holder is live for the margin longer.
TEST_F(PostgresClockMarginTest, AnotherNodesClockMayBeBehind) {
  const ReserveOp op = OpFor("charge");
  const auto first = Reserve(op);
  ASSERT_TRUE(IsReserved(first));
  EXPECT_EQ(std::get<Reserved>(*first).lease_remaining, op.lease);
  ReserveOp other = op;
  other.request_token = Uuid::Random();

  schema_->Advance(op.lease - absl::Microseconds(1));
  auto repeated = Reserve(op);
  ASSERT_TRUE(IsReserved(repeated));
  EXPECT_EQ(std::get<Reserved>(*repeated).lease_remaining, absl::Microseconds(1))
      << "its holder gets no part of the margin";
  schema_->Advance(kMargin);
  auto verdict = Reserve(other);
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_TRUE(std::holds_alternative<InFlight>(*verdict));
  EndMargin();
  verdict = Reserve(other);
  ASSERT_TRUE(IsReserved(verdict));
  EXPECT_EQ(std::get<Reserved>(*verdict).attempt, 2u);
  EXPECT_EQ(std::get<Reserved>(*verdict).lease_remaining, op.lease);
}

// Nobody holds a record that was released.
TEST_F(PostgresClockMarginTest, APauseHasNoMargin) {
  ReserveOp op = OpFor("charge");
  auto granted = Reserve(op);
  ASSERT_TRUE(IsReserved(granted));
  ReleaseOp release;
  release.key = op.key;
  release.id = op.id;
  release.token = std::get<Reserved>(*granted).token;
  release.pause = absl::Seconds(1);
  ASSERT_TRUE(store_->Release({&release, 1}).at(0).ok());
  op.request_token = Uuid::Random();
  EXPECT_FALSE(IsReserved(Reserve(op)));
  schema_->Advance(release.pause);
  granted = Reserve(op);
  ASSERT_TRUE(IsReserved(granted)) << granted.status();
  EXPECT_EQ(std::get<Reserved>(*granted).attempt, 2u);
  EXPECT_EQ(std::get<Reserved>(*granted).lease_remaining, op.lease);
}

// A retry through a node whose clock is ahead runs nothing again inside the retention.
TEST_F(PostgresClockMarginTest, ACompletedRecordIsRememberedForTheMargin) {
  ReserveOp op = OpFor("charge");
  op.retention = op.lease;
  auto verdict = Reserve(op);
  ASSERT_TRUE(IsReserved(verdict));
  const CompleteOp completion = CompletionOf(op, verdict);
  ASSERT_TRUE(store_->Complete({&completion, 1}).at(0).ok());
  AdvanceByAlmost(op.retention);
  op.request_token = Uuid::Random();
  verdict = Reserve(op);
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_TRUE(std::holds_alternative<Replay>(*verdict));
  GetOp get;
  get.id = op.id;
  ListOp list;
  list.name_space = op.key.name_space;
  UsageOp usage;
  usage.name_space = op.key.name_space;
  EXPECT_TRUE(store_->Get({&get, 1}).at(0).ok());
  EXPECT_EQ(store_->List(list)->records.size(), 1u);
  EXPECT_EQ(store_->MeasureUsage(usage)->usage.records, 1);
  EndMargin();
  EXPECT_FALSE(store_->Get({&get, 1}).at(0).ok());
  EXPECT_EQ(store_->List(list)->records.size(), 0u);
  EXPECT_EQ(store_->MeasureUsage(usage)->usage.records, 0);
  verdict = Reserve(op);
  ASSERT_TRUE(IsReserved(verdict)) << "the record is forgotten";
  EXPECT_EQ(std::get<Reserved>(*verdict).attempt, 1u);
}

TEST_F(PostgresClockMarginTest, AReleasedRecordIsRememberedForTheMargin) {
  ReserveOp op = OpFor("charge");
  op.retention = op.lease;
  auto verdict = Reserve(op);
  ASSERT_TRUE(IsReserved(verdict));
  ReleaseOp release;
  release.key = op.key;
  release.id = op.id;
  release.token = std::get<Reserved>(*verdict).token;
  ASSERT_TRUE(store_->Release({&release, 1}).at(0).ok());
  ReserveOp other = op;
  other.fingerprints[0].digest.assign(32, 'b');
  other.request_token = Uuid::Random();
  AdvanceByAlmost(op.retention);
  verdict = Reserve(other);
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_TRUE(std::holds_alternative<Mismatch>(*verdict));
  EndMargin();
  verdict = Reserve(other);
  ASSERT_TRUE(IsReserved(verdict)) << "the record is forgotten";
  EXPECT_EQ(std::get<Reserved>(*verdict).attempt, 1u);
}

// The same for the record: its holder may settle it, and nobody starts it afresh.
TEST_F(PostgresClockMarginTest, ARecordIsRememberedForTheMarginToo) {
  std::vector<ReserveOp> ops = {OpFor("completed"), OpFor("extended"), OpFor("released")};
  std::vector<absl::StatusOr<Verdict>> granted;
  for (ReserveOp& op : ops) {
    op.lease = absl::Seconds(10);
    op.retention = absl::Seconds(10);
    ASSERT_TRUE(IsReserved(granted.emplace_back(Reserve(op))));
  }
  AdvanceByAlmost(ops[0].retention);
  for (ReserveOp other : ops) {
    other.request_token = Uuid::Random();
    const auto verdict = Reserve(other);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_TRUE(std::holds_alternative<InFlight>(*verdict));
  }
  const CompleteOp completion = CompletionOf(ops[0], granted[0]);
  EXPECT_TRUE(store_->Complete({&completion, 1}).at(0).ok());
  EXPECT_TRUE(store_->Complete({&completion, 1}).at(0).ok()) << "its repeat";
  const ExtendOp extension{ops[1].key, ops[1].id, std::get<Reserved>(*granted[1]).token,
                           ops[1].lease, std::nullopt};
  EXPECT_TRUE(store_->Extend({&extension, 1}).at(0).ok());
  ReleaseOp release;
  release.key = ops[2].key;
  release.id = ops[2].id;
  release.token = std::get<Reserved>(*granted[2]).token;
  EXPECT_TRUE(store_->Release({&release, 1}).at(0).ok());
}

TEST_F(PostgresClockMarginTest, TheSweepLeavesALeaseForTheMargin) {
  ReserveOp op = OpFor("charge");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  ASSERT_TRUE(IsReserved(Reserve(op)));
  AdvanceByAlmost(op.lease);
  const auto early = store_->Sweep({});
  ASSERT_TRUE(early.ok()) << early.status();
  EXPECT_EQ(early->marked_unknown, 0);
  EndMargin();
  const auto later = store_->Sweep({});
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ(later->marked_unknown, 1);
}

// The attempt may be running.
TEST_F(PostgresClockMarginTest, AnAdministratorNeedsForceForTheMargin) {
  const ReserveOp op = OpFor("charge");
  ASSERT_TRUE(IsReserved(Reserve(op)));
  ResolveOp resolve;
  resolve.key = op.key;
  resolve.id = op.id;
  resolve.expected_attempt = 1;
  resolve.note = {"alice", "ticket 42"};
  PurgeOp purge_key;
  purge_key.key = op.key;
  purge_key.note = resolve.note;
  PurgeOp purge_all;
  purge_all.name_space = op.key.name_space;
  purge_all.note = resolve.note;
  for (bool* const dry_run :
       {&resolve.validate_only, &purge_key.validate_only, &purge_all.validate_only}) {
    *dry_run = true;
  }
  AdvanceByAlmost(op.lease);
  EXPECT_EQ(ReasonOf(store_->Resolve(resolve).status()), Reason::kForceRequired);
  EXPECT_EQ(ReasonOf(store_->Purge(purge_key).status()), Reason::kForceRequired);
  EXPECT_EQ(store_->Purge(purge_all)->refused, 1);
  EndMargin();
  EXPECT_TRUE(store_->Resolve(resolve).ok());
  EXPECT_TRUE(store_->Purge(purge_key).ok());
  EXPECT_EQ(store_->Purge(purge_all)->refused, 0);
}

TEST_F(PostgresClockMarginTest, AnUnknownOutcomeIsKeptForTheMargin) {
  ReserveOp op = OpFor("charge");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  const auto granted = Reserve(op);
  ASSERT_TRUE(IsReserved(granted));
  ReleaseOp release;
  release.key = op.key;
  release.id = op.id;
  release.token = std::get<Reserved>(*granted).token;
  release.outcome_unknown = true;
  ASSERT_TRUE(store_->Release({&release, 1}).at(0).ok());
  EndUnknownOp end;
  end.name_space = op.key.name_space;
  end.life = absl::Hours(1);
  AdvanceByAlmost(end.life);
  EXPECT_EQ(store_->EndUnknown(end)->ended, 0);
  EndMargin();
  EXPECT_EQ(store_->EndUnknown(end)->ended, 1);
}

// By a clock that is behind, its end is ahead; it is a tombstone all the same.
TEST_F(PostgresClockMarginTest, ATombstoneHasNoMargin) {
  const ReserveOp op = OpFor("charge");
  const auto granted = Reserve(op);
  ASSERT_TRUE(IsReserved(granted));
  const CompleteOp completion = CompletionOf(op, granted);
  ASSERT_TRUE(store_->Complete({&completion, 1}).at(0).ok());
  PurgeOp purge;
  purge.name_space = op.key.name_space;
  purge.scope = op.key.scope;
  purge.key = op.key;
  purge.tombstone = absl::Hours(1);
  ASSERT_TRUE(store_->Purge(purge).ok());
  const auto verdict = Reserve(op);
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_TRUE(std::holds_alternative<Expired>(*verdict));
  const GetOp get{op.id, op.key};
  EXPECT_EQ(ReasonOf(store_->Get({&get, 1}).at(0).status()), Reason::kRecordNotFound);
  EXPECT_EQ(ReasonOf(store_->Purge(purge).status()), Reason::kRecordNotFound);
}

TEST_F(PostgresSingleRowTest, AMarginBeyondWhatTheSweepWaitsForIsRefused) {
  options_.clock_margin = limits::kClockStepMargin + absl::Microseconds(1);
  EXPECT_EQ(PostgresStore::Create(options_).status().code(), absl::StatusCode::kInvalidArgument);
}

// A late checkpoint of an attempt that is superseded replaces none, and leaves none.
TEST_F(PostgresSingleRowTest, OnlyTheHolderLeavesACheckpoint) {
  const ReserveOp op = OpFor("charge");
  const auto first = Reserve(op);
  ASSERT_TRUE(IsReserved(first));
  schema_->Advance(op.lease);
  ReserveOp other = op;
  other.request_token = Uuid::Random();
  const auto second = Reserve(other);
  ASSERT_TRUE(IsReserved(second));
  ExtendOp late{op.key, op.id, std::get<Reserved>(*first).token, op.lease, "late"};
  ExtendOp held{op.key, op.id, std::get<Reserved>(*second).token, op.lease, "held"};
  EXPECT_EQ(ReasonOf(store_->Extend({&late, 1}).at(0).status()), Reason::kReservationLost);
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM checkpoints"), "0");
  EXPECT_TRUE(store_->Extend({&held, 1}).at(0).ok());
  EXPECT_FALSE(store_->Extend({&late, 1}).at(0).ok());
  EXPECT_EQ(schema_->Value("SELECT convert_from(checkpoint, 'UTF8') FROM checkpoints"), "held");
}

TEST_F(PostgresSingleRowTest, ACheckpointOnALostNodeFailsItsRecordAlone) {
  std::vector<ReserveOp> ops = {OpFor("away"), OpFor("there")};
  for (const ReserveOp& op : ops) {
    const auto granted = Reserve(op);
    ASSERT_TRUE(IsReserved(granted));
    const ExtendOp extend{op.key, op.id, std::get<Reserved>(*granted).token, op.lease, "half"};
    ASSERT_TRUE(store_->Extend({&extend, 1}).at(0).ok());
  }
  Run(
      absl::StrCat("CREATE FUNCTION there(id uuid) RETURNS boolean LANGUAGE plpgsql AS $$"
                   " BEGIN IF id = '",
                   ops[0].id.ToString(),
                   "' THEN RAISE EXCEPTION 'no node' USING ERRCODE = '08006'; END IF;"
                   " RETURN true; END $$;"
                   "ALTER TABLE checkpoints RENAME TO nodes;"
                   "CREATE VIEW checkpoints AS SELECT * FROM nodes WHERE there(id)"));
  schema_->Advance(ops[0].lease);
  for (ReserveOp& op : ops) op.request_token = Uuid::Random();
  const auto verdicts = store_->Reserve(ops);
  EXPECT_EQ(ReasonOf(verdicts[0].status()), Reason::kStoreUnavailable);
  ASSERT_TRUE(IsReserved(verdicts[1])) << verdicts[1].status();
  EXPECT_EQ(std::get<Reserved>(*verdicts[1]).checkpoint, "half");
}

// A process that ended between two statements left a checkpoint of a life before.
TEST_F(PostgresSingleRowTest, ACheckpointOfAFormerLifeIsNotHandedOut) {
  const ReserveOp op = OpFor("charge");
  ASSERT_TRUE(IsReserved(Reserve(op)));
  Run(
      absl::StrCat("INSERT INTO checkpoints SELECT id, created_at - interval '1 second', 'old'"
                   " FROM records"));
  schema_->Advance(op.lease);
  ReserveOp other = op;
  other.request_token = Uuid::Random();
  const auto second = Reserve(other);
  ASSERT_TRUE(IsReserved(second));
  EXPECT_EQ(std::get<Reserved>(*second).checkpoint, "");
}

// Reading one of them fails.
constexpr char kUnreadableCheckpoint[] = R"sql(
CREATE FUNCTION is_sound(checkpoint bytea) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF checkpoint = 'lost' THEN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END IF;
  RETURN true;
END $$;
ALTER TABLE checkpoints RENAME TO pages;
CREATE VIEW checkpoints AS SELECT * FROM pages WHERE is_sound(checkpoint)
)sql";

TEST_F(PostgresSingleRowTest, ACheckpointThatTheServerCannotReadDoesNotStopTheRemovalOfOthers) {
  for (const char* const state : {"XX001", "58030"}) {
    SetUp();
    Run("INSERT INTO checkpoints SELECT gen_random_uuid(), '2026-01-01',"
        " CASE WHEN i = 3 THEN 'lost' ELSE 'x' END::bytea FROM generate_series(1, 5) i");
    Run(absl::StrReplaceAll(kUnreadableCheckpoint, {{"{state}", state}}));
    for (int steps = 0; steps < 3; ++steps) ASSERT_TRUE(store_->Sweep({}).ok());
    EXPECT_EQ(schema_->Value("SELECT string_agg(convert_from(checkpoint, 'UTF8'), ',') FROM pages"),
              "lost");
  }
}

// As processes leave them that ended between two statements.
TEST_F(PostgresSingleRowTest, TheSweepRemovesCheckpointsWithoutTheirRecords) {
  const std::vector<ReserveOp> ops = {OpFor("kept"), OpFor("removed"), OpFor("afresh")};
  for (const ReserveOp& op : ops) {
    const auto granted = Reserve(op);
    ASSERT_TRUE(IsReserved(granted));
    const ExtendOp extend{op.key, op.id, std::get<Reserved>(*granted).token, op.lease, op.key.key};
    ASSERT_TRUE(store_->Extend({&extend, 1}).at(0).ok());
  }
  Run("DELETE FROM records WHERE key = 'removed'");
  Run(
      absl::StrCat("UPDATE checkpoints SET record_created_at = record_created_at - interval '1 day'"
                   " WHERE id = '",
                   ops[2].id.ToString(), "'"));
  Run(
      absl::StrCat("INSERT INTO checkpoints SELECT gen_random_uuid(), '2026-01-01', 'x'"
                   " FROM generate_series(1, ",
                   SingleRowOrphans::kPage, ")"));
  ASSERT_TRUE(store_->Sweep({}).ok());
  EXPECT_NE(schema_->Value("SELECT count(*) FROM checkpoints"), "1") << "a page";
  ASSERT_TRUE(store_->Sweep({}).ok());
  EXPECT_EQ(schema_->Value("SELECT string_agg(convert_from(checkpoint, 'UTF8'), ',')"
                           " FROM checkpoints"),
            "kept");
  Run("DELETE FROM records");
  ASSERT_TRUE(store_->Sweep({}).ok());
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM checkpoints"), "0") << "from the start again";
}

// It may have personal data, or be under a key that leaks.
TEST_F(PostgresSingleRowTest, AForgottenRecordsCheckpointIsClearedInEachState) {
  std::vector<ReserveOp> ops = {OpFor("reserved"), OpFor("completed"), OpFor("of a life before")};
  std::vector<CompleteOp> completions;
  for (const ReserveOp& op : ops) {
    const auto granted = Reserve(op);
    ASSERT_TRUE(IsReserved(granted));
    completions.push_back(CompletionOf(op, granted));
    const ExtendOp extend{op.key, op.id, completions.back().token, op.lease, "old"};
    ASSERT_TRUE(store_->Extend({&extend, 1}).at(0).ok());
  }
  ASSERT_TRUE(store_->Complete({&completions[1], 1}).at(0).ok());
  Run(
      absl::StrCat("UPDATE checkpoints SET record_created_at = record_created_at - interval '1 day'"
                   " WHERE id = '",
                   ops[2].id.ToString(), "'"));
  schema_->Advance(ops[0].retention + options_.clock_margin);
  for (ReserveOp& op : ops) {
    op.request_token = Uuid::Random();
    ASSERT_TRUE(IsReserved(Reserve(op)));
  }
  EXPECT_EQ(schema_->Value("SELECT string_agg(octet_length(checkpoint)::text, ',')"
                           " FROM checkpoints"),
            "0,0,0");
}

class CheckpointReplacer final : public ContentSealer {
 public:
  ResealedContent Reseal(const StoredContent& stored) override {
    ResealedContent after;
    if (!stored.checkpoint.empty()) after.checkpoint = "sealed anew";
    return after;
  }
};

// So that the previous key opens none.
TEST_F(PostgresSingleRowTest, ACheckpointOfAFormerLifeIsSealedAnew) {
  ASSERT_TRUE(IsReserved(Reserve(OpFor("charge"))));
  Run("INSERT INTO checkpoints SELECT id, created_at - interval '1 second', 'old' FROM records");
  CheckpointReplacer replacer;
  ResealOp op;
  op.name_space = "payments";
  op.sealer = &replacer;
  const auto step = store_->Reseal(op);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(schema_->Value("SELECT convert_from(checkpoint, 'UTF8') FROM checkpoints"),
            "sealed anew");
}

TEST_F(PostgresSingleRowTest, WhatAResealThatFailsHasReplacedIsInTheAuditLog) {
  const std::vector<ReserveOp> ops = {OpFor("a"), OpFor("b"), OpFor("c")};
  for (const ReserveOp& op : ops) {
    const auto granted = Reserve(op);
    ASSERT_TRUE(IsReserved(granted));
    const CompleteOp completion = CompletionOf(op, granted);
    ASSERT_TRUE(store_->Complete({&completion, 1}).at(0).ok());
  }
  Run("CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS"
      " 'BEGIN RAISE EXCEPTION ''full'' USING ERRCODE = ''53100''; END'");
  // The last one of the step.
  Run("DO $$ BEGIN EXECUTE (SELECT format('CREATE TRIGGER failing BEFORE UPDATE ON records"
      " FOR EACH ROW WHEN (NEW.id = %L) EXECUTE FUNCTION fail()', id)"
      " FROM records ORDER BY id DESC LIMIT 1); END $$");
  ReplyReplacer replacer;
  ResealOp op;
  op.name_space = "payments";
  op.sealer = &replacer;
  EXPECT_FALSE(store_->Reseal(op).ok());
  EXPECT_EQ(schema_->Value("SELECT sum(records) FROM audit_log"), "2");
}

// The purge changes none of the other values that a statement for one record compares.
TEST_F(PostgresSingleRowTest, ATombstoneThatIsPutMeanwhileHolds) {
  WaitForLocks();
  const ReserveOp op = OpFor("charge");
  ASSERT_TRUE(IsReserved(Reserve(op)));
  Run("UPDATE records SET state = 3");
  schema_->Advance(op.retention);
  Run("BEGIN; UPDATE records SET tombstone_until = expires_at + interval '1 day'");
  absl::StatusOr<Verdict> verdict = absl::UnknownError("did not run");
  std::thread caller([&] {
    pthread_setname_np(pthread_self(), "caller");
    verdict = Reserve(op);
  });
  EXPECT_TRUE(AwaitWaiting());
  Run("COMMIT");
  caller.join();
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_FALSE(IsReserved(verdict));
}

TEST_F(PostgresSingleRowTest, TheSweepShortensNoTombstone) {
  WaitForLocks();
  ReserveOp op = OpFor("charge");
  op.tombstone = absl::Hours(1);
  ASSERT_TRUE(IsReserved(Reserve(op)));
  schema_->Advance(op.retention + limits::kClockStepMargin);
  Run("BEGIN; UPDATE records SET tombstone_until = tombstone_until + interval '1 day'");
  const std::string left = schema_->Value("SELECT tombstone_until FROM records");
  absl::StatusOr<SweepProgress> swept = absl::UnknownError("did not run");
  std::thread sweeper([&] {
    pthread_setname_np(pthread_self(), "sweeper");
    swept = store_->Sweep({});
  });
  EXPECT_TRUE(AwaitWaiting());
  Run("COMMIT");
  sweeper.join();
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->entombed, 0);
  EXPECT_EQ(schema_->Value("SELECT tombstone_until FROM records"), left);
  EXPECT_EQ(store_->Sweep({})->entombed, 1) << "the next pass";
  EXPECT_EQ(schema_->Value("SELECT tombstone_until FROM records"), left);
}

TEST_F(PostgresSingleRowTest, TwoReplicasMaySweepAtOnce) {
  ReserveOp op = OpFor("charge");
  op.retention = op.lease;
  ASSERT_TRUE(IsReserved(Reserve(op)));
  schema_->Advance(op.retention + limits::kClockStepMargin);
  const auto other = PostgresStore::Create(options_).value();
  std::int64_t removed = 0;
  std::vector<absl::StatusOr<SweepProgress>> passes(2);
  std::thread replica([&] { passes[1] = other->Sweep({}); });
  passes[0] = store_->Sweep({});
  replica.join();
  for (const auto& pass : passes) {
    ASSERT_TRUE(pass.ok()) << pass.status();
    EXPECT_FALSE(pass->elsewhere);
    removed += pass->removed;
  }
  EXPECT_EQ(removed, 1);
}

// A node that is away fails what reads all of them, and the test commit is not on it.
TEST_F(PostgresSingleRowTest, TheServiceIsHealthyWhileANodeIsAway) {
  ReserveOp op = OpFor("charge");
  op.lease = absl::Hours(1);
  ASSERT_TRUE(IsReserved(Reserve(op)));
  schema_->Advance(absl::Seconds(30));
  ASSERT_EQ(store_->Inspect()->oldest_reserved_age, absl::Seconds(30));
  Run("CREATE FUNCTION away() RETURNS boolean LANGUAGE plpgsql AS $$"
      " BEGIN RAISE EXCEPTION 'no node' USING ERRCODE = '08006'; END $$;"
      "ALTER TABLE records RENAME TO nodes;"
      "CREATE VIEW records AS SELECT * FROM nodes WHERE away()");
  EXPECT_FALSE(store_->Sweep({}).ok());
  const auto inspected = store_->Inspect();
  ASSERT_TRUE(inspected.ok()) << inspected.status();
  EXPECT_EQ(inspected->oldest_reserved_age, absl::Seconds(30)) << "as it was";
  const auto started = PostgresStore::Create(options_).value()->Inspect();
  ASSERT_TRUE(started.ok()) << "a daemon that starts now: " << started.status();
  EXPECT_EQ(started->oldest_reserved_age, std::nullopt);
}

TEST_F(PostgresSingleRowTest, BothModesServeOneSchema) {
  PostgresOptions batched = options_;
  batched.statements = PostgresStatementMode::kBatched;
  const auto other = PostgresStore::Create(batched).value();
  const ReserveOp op = OpFor("charge");
  const auto granted = Reserve(op);
  ASSERT_TRUE(IsReserved(granted));
  const auto repeated = other->Reserve({&op, 1}).at(0);
  ASSERT_TRUE(IsReserved(repeated));
  EXPECT_EQ(std::get<Reserved>(*repeated).token, std::get<Reserved>(*granted).token);
  const CompleteOp completion = CompletionOf(op, repeated);
  ASSERT_TRUE(other->Complete({&completion, 1}).at(0).ok());
  ReserveOp later = op;
  later.request_token = Uuid::Random();
  const auto replayed = Reserve(later);
  ASSERT_TRUE(replayed.ok()) << replayed.status();
  EXPECT_TRUE(std::holds_alternative<Replay>(*replayed));
}

TEST_F(PostgresSingleRowTest, TheSchemaIsCheckedForTheStatementsOfTheMode) {
  EXPECT_TRUE(PostgresMigrator(options_).CheckSchema().ok());
  Run("ALTER TABLE audit_log DROP COLUMN records");
  const auto fault = [this] {
    return std::string(PostgresMigrator(options_).CheckSchema().message());
  };
  EXPECT_THAT(fault(), HasSubstr("note_audit"));
  Run("ALTER TABLE audit_log ADD COLUMN records bigint");
  Run("ALTER TABLE audit_log RENAME COLUMN sequence TO number");
  EXPECT_THAT(fault(), HasSubstr("`read_audit`"));
  Run("ALTER TABLE audit_log RENAME COLUMN number TO sequence");
  Run("ALTER TABLE audit_log ALTER COLUMN record_id TYPE text");
  EXPECT_THAT(fault(), HasSubstr("`read_audit_of_record`"));
  // Compared in one direction alone.
  Run("ALTER TABLE audit_log DROP COLUMN sequence");
  Run("ALTER TABLE audit_log ADD COLUMN sequence text");
  Run("CREATE FUNCTION text_after(text, bigint) RETURNS boolean LANGUAGE sql"
      " AS 'SELECT length($1) > $2'");
  Run("CREATE OPERATOR > (LEFTARG = text, RIGHTARG = bigint, FUNCTION = text_after)");
  EXPECT_THAT(fault(), HasSubstr("`read_newest_audit`"));
  Run("DROP TABLE commit_probe");
  EXPECT_THAT(fault(), HasSubstr("probe_commit"));
}

TEST_F(PostgresSingleRowTest, WithoutCitusNothingIsDistributed) {
  const auto chosen = ChooseStatements(options_, std::nullopt);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(*chosen, PostgresStatementMode::kBatched);
  EXPECT_EQ(ChooseStatements(options_, PostgresStatementMode::kSingleRow).value(),
            PostgresStatementMode::kSingleRow);
  EXPECT_EQ(Reserve(OpFor("open")).ok(), true);
  store_.reset();
  const absl::Status refused = PostgresMigrator(options_).Distribute();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has no Citus"));
}

// In the place of the function of Citus: one node has `{setting}`, another one does not answer.
constexpr char kNodes[] = R"sql(
CREATE OR REPLACE FUNCTION run_command_on_all_nodes(command text, parallel boolean DEFAULT true,
  give_warning_for_connection_errors boolean DEFAULT false)
RETURNS TABLE (nodeid integer, success boolean, result text) LANGUAGE sql AS $$
  VALUES (1, true, 'on'), (2, true, '{setting}'), (3, false, 'failed to connect')
$$)sql";

TEST_F(PostgresSingleRowTest, NodesWhoseCommitsAreNotDurableAreRefused) {
  for (const char* const setting : {"on", "remote_apply", "off", "local", "remote_write"}) {
    SCOPED_TRACE(setting);
    Run(absl::StrReplaceAll(kNodes, {{"{setting}", setting}}));
    const bool durable = setting == std::string("on") || setting == std::string("remote_apply");
    const auto chosen = ChooseStatements(options_, PostgresStatementMode::kSingleRow);
    EXPECT_EQ(chosen.ok(), durable) << chosen.status();
    // A session of a store that runs.
    Open();
    EXPECT_EQ(Reserve(OpFor(setting)).ok(), durable);
    if (durable) continue;
    EXPECT_EQ(chosen.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(chosen.status().message()), HasSubstr("ALTER SYSTEM"));
  }
}

// A machine without power or network: nothing refuses the connection.
constexpr char kSilentNode[] = R"sql(
CREATE OR REPLACE FUNCTION run_command_on_all_nodes(command text, parallel boolean DEFAULT true,
  give_warning_for_connection_errors boolean DEFAULT false)
RETURNS TABLE (nodeid integer, success boolean, result text) LANGUAGE sql AS $$
  SELECT 1, true, 'on' FROM pg_sleep(60)
$$)sql";

TEST_F(PostgresSingleRowTest, ASilentNodeDoesNotKeepTheOthersFromServing) {
  options_.nodes_timeout = absl::Milliseconds(100);
  Run(kSilentNode);
  const absl::Time begin = absl::Now();
  EXPECT_EQ(ChooseStatements(options_, PostgresStatementMode::kSingleRow).value(),
            PostgresStatementMode::kSingleRow);
  Open();
  EXPECT_TRUE(IsReserved(Reserve(OpFor("charge"))));
  EXPECT_TRUE(store_->Inspect().ok());
  EXPECT_LT(absl::Now() - begin, options_.statement_timeout);
}

// It is checked once it answers, also for connections that are open by then.
TEST_F(PostgresSingleRowTest, ANodeThatReturnsWithWeakCommitsIsNotServed) {
  options_.nodes_timeout = absl::Milliseconds(100);
  options_.nodes_proof = absl::Milliseconds(1);
  Open();
  Run(kSilentNode);
  EXPECT_TRUE(IsReserved(Reserve(OpFor("charge-1"))));
  EXPECT_TRUE(store_->Inspect().ok());
  Run(absl::StrReplaceAll(kNodes, {{"{setting}", "off"}}));
  absl::SleepFor(2 * options_.nodes_proof);
  EXPECT_THAT(std::string(store_->Inspect().status().message()), HasSubstr("ALTER SYSTEM"));
  const absl::Status refused = Reserve(OpFor("charge-2")).status();
  EXPECT_EQ(ReasonOf(refused), Reason::kStoreUnavailable);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("ALTER SYSTEM"));
  Run(absl::StrReplaceAll(kNodes, {{"{setting}", "on"}}));
  absl::SleepFor(2 * options_.nodes_proof);
  EXPECT_TRUE(store_->Inspect().ok());
  EXPECT_TRUE(IsReserved(Reserve(OpFor("charge-2"))));
}

// What a distributed server refuses, or would make a transaction of several nodes.
TEST(SingleRowStatementsTest, EachNamesOneRecordAndNoClock) {
  const SingleRowStatements statements("clock_timestamp()");
  for (const PostgresStatement& statement : statements.all()) {
    if (statement.name == statements.read_clock.name) continue;
    SCOPED_TRACE(statement.name);
    const std::string& sql = statement.sql;
    for (const char* const refused :
         {"WITH ", "unnest", "id = ANY", ")[", "FOR UPDATE", "SKIP LOCKED", "now()",
          "clock_timestamp", "advisory", "{", "}"}) {
      EXPECT_THAT(sql, Not(HasSubstr(refused)));
    }
    int writes = 0;
    for (const char* const verb :
         {"INSERT INTO", "UPDATE records", "UPDATE checkpoints", "DELETE"}) {
      for (std::size_t at = sql.find(verb); at != std::string::npos; at = sql.find(verb, at + 1)) {
        ++writes;
      }
    }
    EXPECT_LE(writes, 1);
    if (writes == 0) continue;
    const bool names_its_record = absl::StrContains(sql, "id = $1::uuid") ||
                                  absl::StrContains(sql, "VALUES ($1::uuid") ||
                                  absl::StrContains(sql, "record_id");
    EXPECT_TRUE(names_its_record) << sql;
  }
}

}  // namespace
}  // namespace idempotency::internal
