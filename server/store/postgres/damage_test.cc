// Rows that this program cannot have written, or that the server cannot read, fail alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/options.h"
#include "server/store/postgres/testing/damage_fixture.h"
#include "server/store/postgres/testing/reply_replacer.h"
#include "server/store/postgres/testing/store_fixture.h"
#include "tests/support/postgres_cluster.h"

namespace idempotency::internal {
namespace {

using ::testing::AllOf;
using ::testing::Gt;
using ::testing::Lt;

// By a program that writes to the table, in a form that this service does not.
TEST_F(PostgresStoreTest, AnOddValueDamagesItsRecordAlone) {
  for (const auto* const odd :
       {"labels = '[1]'", "labels = '{\"team\": 1}'", "expires_at = 'infinity'",
        "tombstone_until = 'infinity'", "reply_until = 'infinity'"}) {
    for (const PostgresStatementMode mode :
         {PostgresStatementMode::kBatched, PostgresStatementMode::kSingleRow}) {
      statements_ = mode;
      Open(testing::TestPostgresUrl());
      std::vector<ReserveOp> ops = {OpFor("odd"), OpFor("other")};
      for (const auto& granted : store_->Reserve(ops)) ASSERT_TRUE(granted.ok());
      ASSERT_TRUE(
          schema_->Execute(absl::StrCat("UPDATE records SET ", odd, " WHERE key = 'odd'")).ok());
      for (ReserveOp& op : ops) op.request_token = Uuid::Random();
      const auto verdicts = store_->Reserve(ops);
      EXPECT_EQ(ReasonOf(verdicts[0].status()), Reason::kRecordDamaged) << odd;
      EXPECT_TRUE(verdicts[1].ok()) << odd << ": " << verdicts[1].status();
      GetOp look;
      look.id = ops[0].id;
      EXPECT_EQ(ReasonOf(store_->Get({&look, 1}).at(0).status()), Reason::kRecordDamaged) << odd;
    }
  }
}

// The chunks of every reply that is stored out of its row. The server protects such tables.
constexpr char kLoseReplies[] = R"sql(
SET allow_system_table_mods = on;
DO $$
DECLARE chunks regclass := (SELECT reltoastrelid FROM pg_class WHERE oid = 'records'::regclass);
BEGIN
  UPDATE pg_class SET relkind = 'r' WHERE oid = chunks;
  EXECUTE format('TRUNCATE %s', chunks);
  UPDATE pg_class SET relkind = 't' WHERE oid = chunks;
END $$;
SET allow_system_table_mods = off
)sql";

class PostgresDamageTest : public PostgresModesTest {
 protected:
  // "damaged", "1" and "2", of which the first has lost its reply.
  std::vector<ReserveOp> RunAll() {
    std::vector<ReserveOp> ops = {OpFor("damaged"), OpFor("1"), OpFor("2")};
    for (ReserveOp& op : ops) {
      op.reply_retention = absl::Hours(1);
      Run(op);
      if (op.key.key == "damaged") Must(kLoseReplies);
      op.request_token = Uuid::Random();
    }
    return ops;
  }
};

INSTANTIATE_TEST_SUITE_P(Statements, PostgresDamageTest,
                         ::testing::Values(PostgresStatementMode::kBatched,
                                           PostgresStatementMode::kSingleRow),
                         ModeName);

TEST_P(PostgresDamageTest, AReplyThatTheServerCannotReadFailsItsRecordAlone) {
  const std::vector<ReserveOp> ops = RunAll();
  const auto verdicts = store_->Reserve(ops);
  EXPECT_EQ(ReasonOf(verdicts[0].status()), Reason::kRecordDamaged) << verdicts[0].status();
  std::vector<GetOp> looks;
  for (const ReserveOp& op : ops) looks.push_back({op.id, op.key, /*confirmed=*/false});
  const auto records = store_->Get(looks);
  EXPECT_EQ(ReasonOf(records[0].status()), Reason::kRecordDamaged) << records[0].status();
  for (const std::size_t i : {1, 2}) {
    ASSERT_TRUE(verdicts[i].ok()) << verdicts[i].status();
    EXPECT_TRUE(std::holds_alternative<Replay>(*verdicts[i]));
    EXPECT_TRUE(records[i].ok()) << records[i].status();
  }
  EXPECT_EQ(store_->connections().broken, 0);
}

TEST_P(PostgresDamageTest, AListingCountsARowThatCannotBeRead) {
  for (const char* const key : {"1", "damaged", "2"}) ASSERT_TRUE(Reserve(OpFor(key)).ok());
  Must("UPDATE records SET labels = '[1]' WHERE key = 'damaged'");
  ListOp list;
  list.name_space = OpFor("1").key.name_space;
  const auto page = store_->List(list);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->records.size(), 2u);
  EXPECT_EQ(page->damaged, 1);
}

// Reading whether a reservation has been open for long meets a damaged page. STABLE, so that other
// statements do not evaluate it.
constexpr char kLoseOpenForLong[] = R"sql(
CREATE FUNCTION lost(bool) RETURNS bool LANGUAGE plpgsql STABLE AS $$
BEGIN
  RAISE EXCEPTION 'no' USING ERRCODE = 'XX001';
END $$;
ALTER TABLE records RENAME TO sound;
CREATE VIEW records AS
  SELECT id, state, watched, lost(open_for_long) AS open_for_long, created_at, lease_until FROM sound
)sql";

TEST_P(PostgresDamageTest, AGaugeThatCannotBeReadIsThatOfBefore) {
  const ReserveOp op = OpFor("unknown");
  const auto granted = Reserve(op);
  ASSERT_TRUE(granted.ok()) << granted.status();
  const auto before = store_->Inspect();
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_TRUE(before->read);
  const ReleaseOp release{op.key, op.id, std::get<Reserved>(*granted).token, "why", true};
  ASSERT_TRUE(store_->Release({&release, 1}).at(0).ok());
  Must(kLoseOpenForLong);
  const auto inspected = store_->Inspect();
  ASSERT_TRUE(inspected.ok()) << inspected.status();
  EXPECT_FALSE(inspected->read);
  EXPECT_EQ(inspected->oldest_reserved_age, before->oldest_reserved_age);
  // A statement of its own counts them.
  EXPECT_EQ(inspected->unknown_records, GetParam() == PostgresStatementMode::kSingleRow ? 1 : 0);
}

// As a damaged page of an index, or of the replies, does: the row itself is sound.
constexpr char kRefuseWrites[] = R"sql(
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'no' USING ERRCODE = 'XX002';
END $$;
CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON records
  FOR EACH ROW WHEN (NEW.key IN ('damaged', 'taken', 'new')) EXECUTE FUNCTION refuse()
)sql";

TEST_P(PostgresDamageTest, AWriteThatTheServerCannotMakeIsToBeRepeated) {
  std::vector<ReserveOp> ops = {OpFor("damaged"), OpFor("1"), OpFor("2")};
  std::vector<CompleteOp> completions;
  for (const ReserveOp& op : ops) completions.push_back(CompletionOf(op, Reserve(op)));
  ReserveOp taken = OpFor("taken");
  taken.on_lease_expiry = LeaseExpiry::kTakeOver;
  ASSERT_TRUE(Reserve(taken).ok());
  Must("UPDATE records SET lease_until = clock_timestamp() WHERE key = 'taken'");
  Must(kRefuseWrites);

  const auto completed = store_->Complete(completions);
  EXPECT_EQ(ReasonOf(completed[0].status()), Reason::kStoreUnavailable) << completed[0].status();
  EXPECT_TRUE(completed[1].ok()) << completed[1].status();
  EXPECT_TRUE(completed[2].ok()) << completed[2].status();
  const CompleteOp& held = completions[0];
  const ReleaseOp release{held.key, held.id, held.token, "why"};
  EXPECT_EQ(ReasonOf(store_->Release({&release, 1}).at(0)), Reason::kStoreUnavailable);
  for (const auto& checkpoint :
       {std::optional<std::string>(), std::optional<std::string>("half")}) {
    const ExtendOp extension{held.key, held.id, held.token, absl::Hours(1), checkpoint};
    EXPECT_EQ(ReasonOf(store_->Extend({&extension, 1}).at(0).status()), Reason::kStoreUnavailable);
  }
  taken.request_token = Uuid::Random();
  EXPECT_EQ(ReasonOf(Reserve(taken).status()), Reason::kStoreUnavailable);
  EXPECT_EQ(ReasonOf(Reserve(OpFor("new")).status()), Reason::kStoreUnavailable);

  Must("DROP TRIGGER refuse ON records");
  EXPECT_TRUE(Complete(held).ok()) << "with the same token";
  EXPECT_TRUE(Reserve(taken).ok());
  EXPECT_TRUE(Reserve(OpFor("new")).ok());
}

TEST_P(PostgresDamageTest, ARowThatTheServerCannotReadIsDamagedForItsWriters) {
  std::vector<CompleteOp> completions;
  for (const char* const key : {"damaged", "1"}) {
    const ReserveOp op = OpFor(key);
    completions.push_back(CompletionOf(op, Reserve(op)));
  }
  Must(absl::StrReplaceAll(kUnreadableRows, {{"{keys}", "'damaged'"}, {"{state}", "XX001"}}));
  const auto completed = store_->Complete(completions);
  EXPECT_EQ(ReasonOf(completed[0].status()), Reason::kRecordDamaged) << completed[0].status();
  EXPECT_TRUE(completed[1].ok()) << completed[1].status();
}

// Values that this program cannot have written, on which no decision about a known record depends.
constexpr char kOddValues[] =
    "UPDATE records SET labels = '{\"team\": 1}', reply_until = 'infinity' WHERE key = 'damaged'";

TEST_P(PostgresDamageTest, WhatNoSettleReadsDamagesNoSettle) {
  const ReserveOp op = OpFor("damaged");
  const CompleteOp completion = CompletionOf(op, Reserve(op));
  Must(kOddValues);
  const ExtendOp extension{op.key, op.id, completion.token, absl::Hours(1), std::nullopt};
  EXPECT_TRUE(store_->Extend({&extension, 1}).at(0).ok());
  for (int times = 0; times < 2; ++times) {
    const auto completed = Complete(completion);
    EXPECT_TRUE(completed.ok()) << completed.status();
  }
  EXPECT_EQ(ReasonOf(store_->Extend({&extension, 1}).at(0).status()), Reason::kReservationLost);
  const ReleaseOp release{op.key, op.id, completion.token, "why"};
  EXPECT_EQ(ReasonOf(store_->Release({&release, 1}).at(0)), Reason::kReservationLost);
}

TEST_P(PostgresDamageTest, AFailedWriteIsDamageOnlyWhereTheSettleReadsIt) {
  const ReserveOp op = OpFor("damaged");
  const CompleteOp completion = CompletionOf(op, Reserve(op));
  Must(kRefuseWrites);
  Must("ALTER TABLE records DISABLE TRIGGER refuse");
  Must(kOddValues);
  Must("ALTER TABLE records ENABLE TRIGGER refuse");
  EXPECT_EQ(ReasonOf(Complete(completion).status()), Reason::kStoreUnavailable);
  Must("ALTER TABLE records DISABLE TRIGGER refuse");
  Must("UPDATE records SET expires_at = 'infinity'");
  Must("ALTER TABLE records ENABLE TRIGGER refuse");
  EXPECT_EQ(ReasonOf(Complete(completion).status()), Reason::kRecordDamaged);
}

TEST_P(PostgresDamageTest, APurgeOfOneRecordNeedsNoneOfThem) {
  for (const absl::Duration tombstone : {absl::Hours(1), absl::ZeroDuration()}) {
    ASSERT_TRUE(Reserve(OpFor("damaged")).ok());
    Must(kOddValues);
    PurgeOp purge;
    purge.name_space = "payments";
    purge.key = OpFor("damaged").key;
    purge.force = true;
    purge.tombstone = tombstone;
    purge.note = {"alice", "ticket 42"};
    for (const bool validate_only : {true, false}) {
      purge.validate_only = validate_only;
      const auto purged = store_->Purge(purge);
      ASSERT_TRUE(purged.ok()) << purged.status();
      EXPECT_EQ(purged->purged.size(), 1u);
    }
    Must("DELETE FROM records");
  }
}

class CountingSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  int lines() const { return lines_; }

 protected:
  void sink_it_(const spdlog::details::log_msg& /*line*/) override { ++lines_; }
  void flush_() override {}

 private:
  std::atomic<int> lines_{0};
};

INSTANTIATE_TEST_SUITE_P(Statements, PostgresUnreadableRowTest,
                         ::testing::Values(PostgresStatementMode::kBatched,
                                           PostgresStatementMode::kSingleRow),
                         ModeName);

TEST_P(PostgresUnreadableRowTest, IsLiveForAMeasurement) {
  const std::vector<ReserveOp> ops = MakeUnknown({});
  Lose({&ops[1]});
  EXPECT_EQ(Measure().records, 3);
}

// The search for its place fails some sixty times.
TEST_P(PostgresUnreadableRowTest, IsOneLineOfTheLogForEachStep) {
  const std::vector<ReserveOp> ops = MakeUnknown({});
  Lose({&ops[1]});
  const auto sink = std::make_shared<CountingSink>();
  const std::shared_ptr<spdlog::logger> before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
  Measure();
  store_->Sweep({}).IgnoreError();
  spdlog::set_default_logger(before);
  EXPECT_THAT(sink->lines(), AllOf(Gt(0), Lt(10)));
}

TEST_P(PostgresUnreadableRowTest, IsBusyForAPurge) {
  const std::vector<ReserveOp> ops = MakeUnknown({});
  Lose({&ops[1]});
  PurgeOp of_scope = PurgeOfAll();
  of_scope.created_before.reset();
  of_scope.scope = ops[0].key.scope;
  PurgeOp counted = PurgeOfAll();
  counted.validate_only = true;
  PurgeOp counted_scope = of_scope;
  counted_scope.validate_only = true;
  for (const PurgeOp& count : {counted, counted_scope}) {
    const PurgeStep sums = Purge(count);
    EXPECT_EQ(sums.purged.size(), 2u);
    EXPECT_EQ(sums.busy, 1);
  }
  PurgeOp entomb = of_scope;
  entomb.tombstone = absl::Hours(1);
  for (const PurgeOp& purge : {entomb, of_scope}) {
    const PurgeStep sums = Purge(purge);
    EXPECT_EQ(sums.purged, std::vector<RecordId>({ops[0].id, ops[2].id}));
    EXPECT_EQ(sums.busy, 1);
  }
  EXPECT_EQ(Purge(PurgeOfAll()).busy, 1);
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM pages"), "1");
}

TEST_P(PostgresUnreadableRowTest, IsDamagedInAListing) {
  const std::vector<ReserveOp> ops = MakeUnknown({});
  Lose({&ops[1]});
  ListOp all;
  all.name_space = "payments";
  ListOp of_scope = all;
  of_scope.scope = ops[0].key.scope;
  ListOp unknown = all;
  unknown.state = RecordState::kUnknown;
  ListOp children = all;
  children.parent = ops[0].parent;
  for (const ListOp& list : {all, of_scope, unknown, children}) {
    const RecordPage listed = ListAll(list);
    ASSERT_EQ(listed.records.size(), 2u);
    EXPECT_EQ(listed.records[0].id, ops[0].id);
    EXPECT_EQ(listed.records[1].id, ops[2].id);
    EXPECT_EQ(listed.damaged, 1);
  }
}

TEST_P(PostgresUnreadableRowTest, StaysWhereUnknownRecordsEnd) {
  const std::vector<ReserveOp> ops = MakeUnknown({});
  Lose({&ops[1]});
  EXPECT_EQ(EndUnknown(), 2);
}

TEST_P(PostgresUnreadableRowTest, IsDamagedForSealingAnew) {
  std::vector<ReserveOp> ops = MakeUnknown({});
  Must("UPDATE records SET state = 1, watched = false");
  for (ReserveOp& op : ops) {
    op.request_token = Uuid::Random();
    Run(op);
  }
  Lose({&ops[1]});
  const ResealStep sums = Reseal();
  EXPECT_EQ(sums.examined, 3);
  EXPECT_EQ(sums.damaged, std::vector<RecordId>({ops[1].id}));
  EXPECT_EQ(sums.resealed, std::vector<RecordId>({ops[0].id, ops[2].id}));
}

TEST_P(PostgresUnreadableRowTest, ARowThatTheServerCannotWriteIsBusy) {
  std::vector<ReserveOp> ops = MakeUnknown({});
  Must("UPDATE records SET state = 1, watched = false");
  for (ReserveOp& op : ops) {
    op.request_token = Uuid::Random();
    Run(op);
  }
  Must(absl::StrReplaceAll(
      kRefuseWrites, {{"('damaged', 'taken', 'new')", absl::StrCat("('", ops[1].key.key, "')")}}));
  Must(
      absl::StrCat("CREATE TRIGGER refuse_removal BEFORE DELETE ON records FOR EACH ROW WHEN"
                   " (OLD.key = '",
                   ops[1].key.key, "') EXECUTE FUNCTION refuse()"));
  const std::vector<RecordId> others = {ops[0].id, ops[2].id};
  const ResealStep sealed = Reseal();
  EXPECT_EQ(sealed.busy, 1);
  EXPECT_EQ(sealed.resealed, others);
  const PurgeStep purged = Purge(PurgeOfAll());
  EXPECT_EQ(purged.busy, 1);
  EXPECT_EQ(purged.purged, others);
}

// A walk through a namespace continues by scope, which nothing but the row has.
TEST_P(PostgresUnreadableRowTest, MayBeTheOnlyOneOfItsScope) {
  const std::string longest(limits::kMaxScopeBytes, '~');
  for (const std::string& scope :
       {std::string("a"), std::string("tenant-1\x01"), std::string("tenant-2"),
        std::string("t\xC3\xA9nant"), std::string("\xED\x9F\xBF\xEE\x80\x80"),
        std::string("\xF4\x8F\xBF\xBF"), longest}) {
    SCOPED_TRACE(scope);
    Open(testing::TestPostgresUrl());
    const std::vector<ReserveOp> ops = MakeUnknown({"a", scope, "\xF4\x8F\xBF\xBF~"});
    Lose({&ops[1]});
    EXPECT_EQ(Measure().records, 3);
    const PurgeStep sums = Purge(PurgeOfAll());
    EXPECT_EQ(sums.purged, std::vector<RecordId>({ops[0].id, ops[2].id}));
    EXPECT_EQ(sums.busy, 1);
  }
}

TEST_P(PostgresUnreadableRowTest, MayBeOneOfMany) {
  const std::vector<ReserveOp> ops = MakeUnknown({"a", "a", "b"});
  Lose({&ops[0], &ops[1], &ops[2]});
  EXPECT_EQ(Measure().records, 3);
  EXPECT_EQ(Purge(PurgeOfAll()).busy, 3);
}

INSTANTIATE_TEST_SUITE_P(Statements, PostgresDamagedPageTest,
                         ::testing::Values(PostgresStatementMode::kBatched,
                                           PostgresStatementMode::kSingleRow),
                         ModeName);

TEST_P(PostgresDamagedPageTest, StopsNoWalk) {
  Fill();
  const std::int64_t lost = Damage();
  ASSERT_GT(lost, 10);
  EXPECT_EQ(Measure().records, kRows);
  ListOp list;
  list.name_space = "payments";
  const RecordPage listed = ListAll(list);
  EXPECT_EQ(listed.records.size(), static_cast<std::size_t>(kRows - lost));
  EXPECT_EQ(listed.damaged, lost);
  const ResealStep sealed = Reseal();
  EXPECT_EQ(sealed.examined, kRows);
  EXPECT_EQ(sealed.damaged.size(), static_cast<std::size_t>(lost));
  // Where Postgres cleans a page of an index before it writes a row, it reads the rows of that
  // page: it may refuse to write others than those that are lost.
  const std::int64_t ended = EndUnknown();
  EXPECT_LE(ended, kRows - lost);
  EXPECT_GT(ended, 0);
  const PurgeStep purged = Purge(PurgeOfAll());
  EXPECT_EQ(static_cast<std::int64_t>(purged.purged.size()) + purged.busy, kRows);
  EXPECT_GE(purged.busy, lost);
  EXPECT_GT(purged.purged.size(), 0u);
  EXPECT_EQ(SweepAll().visited, purged.busy);
}

TEST_P(PostgresDamageTest, AReplyThatTheServerCannotReadDoesNotStopTheSweep) {
  RunAll();
  Must("UPDATE records SET reply_until = clock_timestamp() - interval '1 minute'");
  const auto swept = store_->Sweep({});
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->replies_dropped, 2);
  Must(
      "UPDATE records SET created_at = created_at - interval '100 days',"
      " lease_until = lease_until - interval '100 days',"
      " completed_at = completed_at - interval '100 days', reply_until = NULL,"
      " expires_at = expires_at - interval '100 days'");
  EXPECT_EQ(store_->Sweep({})->removed, 3) << "the damaged one too";
}

// A page that no statement can read, in the middle of each of the two walks.
TEST_P(PostgresDamageTest, ARowThatTheServerCannotReadDoesNotStopTheSweep) {
  std::vector<ReserveOp> ops;
  for (int i = 0; i < 3; ++i) {
    const absl::Time made_at = absl::Now() + absl::Milliseconds(i);
    ops.push_back(OpFor(Uuid::TimeOrdered(made_at).ToString()));
  }
  for (const char* const key : {"1", "damaged", "2"}) ops.push_back(OpFor(key));
  for (const ReserveOp& op : ops) ASSERT_TRUE(Reserve(op).ok());
  Must(
      "UPDATE records SET created_at = created_at - interval '100 days',"
      " lease_until = lease_until - interval '100 days',"
      " expires_at = expires_at - interval '100 days'");
  Must(absl::StrReplaceAll(
      kUnreadableRows,
      {{"{keys}", absl::StrCat("'damaged', '", ops[1].key.key, "'")}, {"{state}", "XX001"}}));
  const SweepProgress pass = SweepAll();
  EXPECT_EQ(pass.removed, 4);
  EXPECT_EQ(pass.visited, 6);
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM pages"), "2");
}

TEST_P(PostgresDamageTest, ARowThatTheServerCannotRemoveDoesNotStopTheSweep) {
  for (const char* const key : {"1", "damaged", "2"}) ASSERT_TRUE(Reserve(OpFor(key)).ok());
  Must(
      "UPDATE records SET created_at = created_at - interval '100 days',"
      " lease_until = lease_until - interval '100 days',"
      " expires_at = expires_at - interval '100 days'");
  Must(kRefuseWrites);
  Must(
      "CREATE TRIGGER refuse_removal BEFORE DELETE ON records"
      " FOR EACH ROW WHEN (OLD.key = 'damaged') EXECUTE FUNCTION refuse()");
  EXPECT_EQ(SweepAll().removed, 2);
  EXPECT_EQ(schema_->Value("SELECT key FROM records"), "damaged");
}

TEST_P(PostgresDamageTest, AReplyThatTheServerCannotReadDoesNotStopSealingAnew) {
  const std::vector<ReserveOp> ops = RunAll();
  ReplyReplacer sealer;
  ResealOp op;
  op.name_space = ops[0].key.name_space;
  op.note = {"alice", "ticket 42"};
  op.sealer = &sealer;
  std::vector<RecordId> damaged;
  std::size_t resealed = 0;
  int steps = 0;
  do {
    ASSERT_LT(++steps, 20) << "the pass does not end";
    const auto step = store_->Reseal(op);
    ASSERT_TRUE(step.ok()) << step.status();
    damaged.insert(damaged.end(), step->damaged.begin(), step->damaged.end());
    resealed += step->resealed.size();
    op.after = step->next;
  } while (op.after);
  EXPECT_EQ(damaged, std::vector<RecordId>({ops[0].id}));
  EXPECT_EQ(resealed, 2u);
}

}  // namespace
}  // namespace idempotency::internal
