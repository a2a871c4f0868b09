// The time that a step of the sweep reports, until the same records need it again.
#include "server/store/postgres/batched/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "server/store/limits.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/testing/store_fixture.h"
#include "server/store/testing/operations.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal {
namespace {

constexpr absl::Duration kLease = absl::Seconds(30);
constexpr absl::Duration kWatchedAfter = absl::Minutes(1);
constexpr absl::Duration kSettled = absl::Minutes(1);

// The first place of each of the two walks.
Uuid Start(bool hashed) {
  Uuid::Bytes bytes{};
  if (hashed) bytes[0] = 0x80;
  return Uuid(bytes);
}

// One record at a time, once with an id that is ordered by time and once with a hashed one.
class PostgresSweepTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    auto schema = testing::PostgresSchema::Create(testing::TestPostgresUrl(),
                                                  {/*migrate=*/true, /*test_clock=*/true});
    ASSERT_TRUE(schema.ok()) << schema.status();
    schema_ = *std::move(schema);
    store_ = PostgresStore::Create(schema_->options()).value();
    op_ = ReserveNamed("opaque");
    // Not among the newest.
    if (!GetParam()) NameKeyBy(schema_->Now() - kSettled - absl::Seconds(1));
    op_.lease = kLease;
    op_.retention = absl::Hours(48);
  }

  void NameKeyBy(absl::Time time) {
    op_.key.key = Uuid::TimeOrdered(time).ToString();
    op_.id = RecordIdFor(op_.key);
  }
  // What a step reports where the records need nothing for so long: no time for the newest ones.
  absl::Duration Quiet(absl::Duration time) const {
    const bool is_new = GetParam() && schema_->Now() - reserved_at_ <= kSettled;
    return is_new ? absl::ZeroDuration() : time;
  }

  Uuid Reserve() {
    reserved_at_ = schema_->Now();
    const auto verdict = store_->Reserve({&op_, 1}).at(0);
    EXPECT_TRUE(verdict.ok()) << verdict.status();
    const auto* const reserved = verdict.ok() ? std::get_if<Reserved>(&*verdict) : nullptr;
    EXPECT_NE(reserved, nullptr);
    return reserved == nullptr ? Uuid() : reserved->token;
  }
  void Complete(const Uuid& token) {
    v1::Reply reply;
    reply.set_body("paid");
    const CompleteOp completion{op_.key, op_.id, token, EncodeReply(reply)};
    const auto done = store_->Complete({&completion, 1}).at(0);
    EXPECT_TRUE(done.ok()) << done.status();
  }
  void Release(const Uuid& token, bool outcome_unknown) {
    const ReleaseOp release{op_.key, op_.id, token, "why", outcome_unknown};
    EXPECT_TRUE(store_->Release({&release, 1}).at(0).ok());
  }
  void Extend(const Uuid& token, absl::Duration lease) {
    const ExtendOp extension{op_.key, op_.id, token, lease, std::nullopt};
    EXPECT_TRUE(store_->Extend({&extension, 1}).at(0).ok());
  }
  void Advance(absl::Duration by) { schema_->Advance(by); }

  // A step that ends with the record: its result concerns this record alone.
  SweepProgress Step() {
    SweepOp op;
    if (GetParam()) op.after = Start(/*hashed=*/true);
    op.limit = 1;
    const auto progress = store_->Sweep(op);
    EXPECT_TRUE(progress.ok()) << progress.status();
    if (!progress.ok()) return {};
    EXPECT_EQ(progress->visited, 1);
    EXPECT_TRUE(progress->next.has_value());
    return *progress;
  }

  std::unique_ptr<testing::PostgresSchema> schema_;
  std::unique_ptr<PostgresStore> store_;
  ReserveOp op_;
  absl::Time reserved_at_;
};
INSTANTIATE_TEST_SUITE_P(Ids, PostgresSweepTest, ::testing::Bool(), [](const auto& parameter) {
  return parameter.param ? "Hashed" : "Ordered";
});

// A clock that is set a day ahead for a moment: the record would run again.
TEST_P(PostgresSweepTest, NothingIsRemovedByAClockThatIsFarAhead) {
  PostgresOptions options = schema_->options();
  options.max_clock_ahead = limits::kClockStepMargin;
  const auto careful = PostgresStore::Create(options).value();
  Complete(Reserve());
  SweepOp op;
  op.limit = 10;
  EXPECT_TRUE(careful->Sweep(op).ok());
  Advance(absl::Hours(72));
  const absl::Status refused = careful->Sweep(op).status();
  EXPECT_EQ(ReasonOf(refused), Reason::kStoreUnavailable);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("ahead of this machine's"));
  EndUnknownOp end;
  end.name_space = op_.key.name_space;
  EXPECT_EQ(ReasonOf(careful->EndUnknown(end).status()), Reason::kStoreUnavailable);
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM records"), "1");
  EXPECT_TRUE(store_->Sweep(op).ok());
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM records"), "0");
}

TEST_P(PostgresSweepTest, ARunningReservationIsLookedAtWhenItHasBeenOpenForAMinute) {
  op_.lease = absl::Minutes(10);
  Reserve();
  EXPECT_EQ(Step().quiet, Quiet(kWatchedAfter));
  Advance(kWatchedAfter - absl::Microseconds(1));
  EXPECT_EQ(Step().quiet, Quiet(absl::Microseconds(1)));
  Advance(absl::Microseconds(1));
  EXPECT_EQ(Step().quiet, absl::ZeroDuration()) << "it is marked now";
  EXPECT_EQ(schema_->Value("SELECT open_for_long FROM records"), "t");
  EXPECT_EQ(Step().quiet, Quiet(absl::Minutes(9))) << "until its lease is over";
  Advance(absl::Minutes(9));
  EXPECT_EQ(Step().quiet, absl::ZeroDuration()) << "the mark is taken back";
  EXPECT_EQ(schema_->Value("SELECT open_for_long FROM records"), "f");
  EXPECT_EQ(Step().quiet, Quiet(absl::Hours(48) - absl::Minutes(10) + limits::kClockStepMargin))
      << "until it may be swept";
}

TEST_P(PostgresSweepTest, OneUnderRequireRecoveryWhenItsLeaseIsOver) {
  op_.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  Reserve();
  EXPECT_EQ(Step().quiet, Quiet(kLease));
  Advance(kLease);
  const SweepProgress marked = Step();
  EXPECT_EQ(marked.marked_unknown, 1);
  EXPECT_EQ(marked.quiet, absl::ZeroDuration());
  EXPECT_EQ(Step().quiet, Quiet(absl::InfiniteDuration())) << "UNKNOWN wants nothing ever";
}

TEST_P(PostgresSweepTest, AnUnknownRecordNever) {
  Release(Reserve(), /*outcome_unknown=*/true);
  EXPECT_EQ(Step().quiet, Quiet(absl::InfiniteDuration()));
}

TEST_P(PostgresSweepTest, AReleasedRecordWhenItMayBeSwept) {
  Release(Reserve(), /*outcome_unknown=*/false);
  EXPECT_EQ(Step().quiet, Quiet(op_.retention + limits::kClockStepMargin));
  Advance(op_.retention + limits::kClockStepMargin - absl::Microseconds(1));
  const SweepProgress kept = Step();
  EXPECT_EQ(kept.removed, 0);
  EXPECT_EQ(kept.quiet, absl::Microseconds(1));
  Advance(absl::Microseconds(1));
  const SweepProgress swept = Step();
  EXPECT_EQ(swept.removed, 1);
  EXPECT_EQ(swept.quiet, absl::InfiniteDuration()) << "what is gone wants nothing";
}

TEST_P(PostgresSweepTest, ACompletedRecordWhenItMayBeSwept) {
  Complete(Reserve());
  EXPECT_EQ(Step().quiet, Quiet(op_.retention + limits::kClockStepMargin));
}

TEST_P(PostgresSweepTest, OneWithAReplyOfItsOwnRetentionWhenThatIsOver) {
  op_.reply_retention = absl::Hours(1);
  Complete(Reserve());
  EXPECT_EQ(Step().quiet, Quiet(absl::Hours(1)));
  Advance(absl::Hours(1));
  const SweepProgress dropped = Step();
  EXPECT_EQ(dropped.replies_dropped, 1);
  EXPECT_EQ(dropped.quiet, absl::ZeroDuration());
  EXPECT_EQ(Step().quiet, Quiet(op_.retention - absl::Hours(1) + limits::kClockStepMargin));
}

TEST_P(PostgresSweepTest, OneWithATombstoneWhenItIsReducedAndWhenThatIsOver) {
  op_.tombstone = absl::Hours(5);
  Complete(Reserve());
  EXPECT_EQ(Step().quiet, Quiet(op_.retention + limits::kClockStepMargin));
  Advance(op_.retention + limits::kClockStepMargin);
  const SweepProgress entombed = Step();
  EXPECT_EQ(entombed.entombed, 1);
  EXPECT_EQ(entombed.quiet, absl::ZeroDuration());
  EXPECT_EQ(Step().quiet, Quiet(op_.tombstone));
}

// A pass that takes long reaches them late.
TEST_P(PostgresSweepTest, TheNewestRecordsAndTheHashedOnesAreRangesOfTheirOwn) {
  Reserve();
  Advance(absl::Hours(2));
  op_.key.key = GetParam() ? "another" : Uuid::TimeOrdered(schema_->Now()).ToString();
  op_.id = RecordIdFor(op_.key);
  Reserve();
  const auto all = store_->Sweep({});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->visited, 2);
  const auto visited_in = [this](const SweepRange& range) {
    SweepOp op;
    op.after = range.after;
    op.until = range.until;
    const auto step = store_->Sweep(op);
    EXPECT_TRUE(step.ok()) << step.status();
    EXPECT_EQ(step->next, range.until);
    return step->visited;
  };
  ASSERT_EQ(all->turns.size(), 3u);
  EXPECT_EQ(visited_in(all->turns[0]), GetParam() ? 0 : 1) << "the newest of UUIDv7 keys";
  EXPECT_EQ(visited_in(all->turns[1]), GetParam() ? 1 : 0) << "the newest of others";
  EXPECT_EQ(visited_in(all->turns[2]), GetParam() ? 2 : 0) << "all of others";
}

// New records appear at the end of a walk, at any time.
TEST_P(PostgresSweepTest, AStepToTheEndOfAWalkReportsNoTime) {
  Release(Reserve(), /*outcome_unknown=*/true);
  SweepOp op;
  op.limit = 2;
  const auto all = store_->Sweep(op);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->visited, 1);
  EXPECT_EQ(all->quiet, absl::ZeroDuration());
  EXPECT_FALSE(all->next.has_value());
  // Also where a step continues into the other walk.
  op.until = Start(/*hashed=*/true);
  const auto into = store_->Sweep(op);
  ASSERT_TRUE(into.ok()) << into.status();
  EXPECT_EQ(into->quiet, absl::ZeroDuration());
  EXPECT_EQ(into->next, op.until);
  // Up to a place before it, the step reports a time.
  Advance(absl::Hours(1));
  op.until = Step().next;
  op.after = Start(GetParam());
  const auto stretch = store_->Sweep(op);
  ASSERT_TRUE(stretch.ok()) << stretch.status();
  EXPECT_EQ(stretch->visited, 1);
  EXPECT_EQ(stretch->quiet, absl::InfiniteDuration());
  EXPECT_EQ(stretch->next, op.until);
}

// Of callers whose clocks are behind, and of inserts that are not committed yet.
TEST_P(PostgresSweepTest, RecordsAreAddedUpToAMinuteAgo) {
  if (!GetParam()) NameKeyBy(schema_->Now());
  Release(Reserve(), /*outcome_unknown=*/true);
  EXPECT_EQ(Step().quiet, absl::ZeroDuration());
  Advance(kSettled - absl::Milliseconds(2));
  EXPECT_EQ(Step().quiet, absl::ZeroDuration());
  Advance(absl::Milliseconds(4));
  EXPECT_EQ(Step().quiet, absl::InfiniteDuration()) << "it can be skipped";
}

// However small a part of the places is, it may reach far behind those of new records.
TEST_P(PostgresSweepTest, ANarrowedStepIntoTheFutureIsNotSkipped) {
  Release(Reserve(), /*outcome_unknown=*/true);
  Advance(absl::Hours(1));
  SweepOp op;
  op.after = Start(GetParam());
  op.narrow = 4;
  const auto far = store_->Sweep(op);
  ASSERT_TRUE(far.ok()) << far.status();
  EXPECT_EQ(far->visited, 1);
  EXPECT_EQ(far->quiet, absl::ZeroDuration());
  // What it narrows is in the past.
  op.until = Step().next;
  op.after = Uuid::TimeOrdered(schema_->Now() - absl::Hours(3));
  if (GetParam()) op.after = Start(/*hashed=*/true);
  const auto past = store_->Sweep(op);
  ASSERT_TRUE(past.ok()) << past.status();
  EXPECT_EQ(past->quiet, absl::InfiniteDuration());
}

// As of one caller whose clock is ahead.
TEST_P(PostgresSweepTest, AStepThatKeysOfTheFutureFillIsNotSkipped) {
  if (GetParam()) GTEST_SKIP() << "the store's clock orders them";
  Release(Reserve(), /*outcome_unknown=*/true);
  Advance(absl::Hours(1));
  constexpr int kAhead = 3;
  for (int i = 0; i < kAhead; ++i) {
    NameKeyBy(schema_->Now() + absl::Hours(20 + i));
    Release(Reserve(), /*outcome_unknown=*/true);
  }
  SweepOp op;
  op.limit = 1;
  for (int i = 0; i <= kAhead; ++i) {
    const auto step = store_->Sweep(op);
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_EQ(step->visited, 1);
    EXPECT_EQ(step->quiet, i > 0 ? absl::ZeroDuration() : absl::InfiniteDuration()) << i;
    op.after = step->next;
  }
}

TEST_P(PostgresSweepTest, WhileAnotherReplicaSweepsNoTimeIsReported) {
  Release(Reserve(), /*outcome_unknown=*/true);
  ASSERT_TRUE(schema_
                  ->Execute("SELECT pg_advisory_lock(hashtextextended('idempotency sweep ' ||"
                            " current_schema, 0))")
                  .ok());
  SweepOp op;
  op.after = Start(GetParam());
  const auto progress = store_->Sweep(op);
  ASSERT_TRUE(progress.ok()) << progress.status();
  EXPECT_TRUE(progress->elsewhere);
  EXPECT_EQ(progress->quiet, absl::ZeroDuration());
  EXPECT_EQ(progress->next, op.after) << "where it stands";
}

std::string ModeName(const ::testing::TestParamInfo<PostgresStatementMode>& mode) {
  return mode.param == PostgresStatementMode::kBatched ? "Batched" : "SingleRow";
}

// Passes over tables of which a step could not be bounded by its number of rows.
class PostgresSweepSizeTest : public PostgresStoreTest,
                              public ::testing::WithParamInterface<PostgresStatementMode> {
 protected:
  static constexpr std::int64_t kMiB = 1024 * 1024;

  void SetUp() override {
    statements_ = GetParam();
    PostgresStoreTest::SetUp();
    // Its log is no step's.
    Must(
        "ALTER TABLE records"
        " SET (autovacuum_enabled = off, toast.autovacuum_enabled = off)");
  }
  void Must(const std::string& sql) {
    // The rows of a test are large.
    const auto done = schema_->ExecuteWithin(sql, absl::Minutes(2));
    ASSERT_TRUE(done.ok()) << done.status();
  }
  // Forgotten ones, an hour apart, the i-th with the key i; with ids of UUIDv7 keys, or hashed.
  void Insert(int count, bool hashed, int reply_kib) {
    Must(absl::StrCat(
        "INSERT INTO records (id, namespace, scope, operation, key, state, require_recovery,"
        " attempt, token, created_at, lease_until, expires_at, completed_at, fingerprints, reply,"
        " reply_digest) SELECT ",
        hashed ? "overlay(md5(i::text) PLACING 'f' FROM 1 FOR 1)"
               : "rpad(lpad(to_hex(extract(epoch FROM t)::bigint * 1000), 12, '0'), 32, '0')",
        "::uuid, 'n', 's', 'o', i::text, 2, false, 1, gen_random_uuid(), t, t, t + interval '1 h',"
        " t, '\\x0000000001200000000000000000000000000000000000000000000000000000000000000000',"
        " repeat('r', 1024 * ",
        reply_kib,
        ")::bytea, sha256('') FROM (SELECT i, now() - interval '100 days' + i * interval '1 hour'"
        " AS t FROM generate_series(1, ",
        count, ") i) n"));
  }
  std::string LogEnd() { return schema_->Value("SELECT pg_current_wal_insert_lsn()"); }
  std::int64_t LoggedSince(const std::string& end) {
    return std::stoll(
        schema_->Value(absl::StrCat("SELECT pg_current_wal_insert_lsn() - '", end, "'::pg_lsn")));
  }
  // As the sweeper does.
  SweepProgress SweepAll(std::int64_t max_log_bytes = 1024 * kMiB) {
    SweepProgress pass;
    SweepOp op;
    for (int steps = 0; steps < 300; ++steps) {
      const std::string before = LogEnd();
      const auto step = store_->Sweep(op);
      EXPECT_TRUE(step.ok()) << step.status();
      if (!step.ok()) return pass;
      EXPECT_LT(LoggedSince(before), max_log_bytes);
      pass.removed += step->removed;
      pass.visited += step->visited;
      op.narrow = step->too_slow ? op.narrow + 4 : std::max(op.narrow - 1, 0);
      if (step->too_slow) continue;
      op.after = step->next;
      if (!op.after) return pass;
    }
    ADD_FAILURE() << "the pass does not end";
    return pass;
  }
};
INSTANTIATE_TEST_SUITE_P(Statements, PostgresSweepSizeTest,
                         ::testing::Values(PostgresStatementMode::kBatched,
                                           PostgresStatementMode::kSingleRow),
                         ModeName);

TEST_P(PostgresSweepSizeTest, AStepRemovesABoundedSizeOfReplies) {
  Must("ALTER TABLE records ALTER reply SET STORAGE EXTERNAL");
  for (const bool hashed : {false, true}) {
    SCOPED_TRACE(hashed);
    Insert(60, hashed, 1024);
    // The first change of a page is logged as the whole page.
    Must("CHECKPOINT");
    const SweepProgress pass = SweepAll(32 * kMiB);
    EXPECT_EQ(pass.removed, 60);
    EXPECT_EQ(pass.visited, 60);
    EXPECT_EQ(schema_->Value("SELECT count(*) FROM records"), "0");
  }
}

TEST_P(PostgresSweepSizeTest, SoDoesAStepOfAPurge) {
  if (GetParam() == PostgresStatementMode::kSingleRow) {
    GTEST_SKIP() << "each row by a statement of its own";
  }
  Must("ALTER TABLE records ALTER reply SET STORAGE EXTERNAL");
  for (const bool by_scope : {false, true}) {
    SCOPED_TRACE(by_scope);
    Insert(60, /*hashed=*/true, 1024);
    Must("CHECKPOINT");
    PurgeOp op;
    op.name_space = "n";
    if (by_scope) op.scope = "s";
    op.note = {"alice", "ticket 42"};
    std::size_t purged = 0;
    for (int steps = 0; steps < 60; ++steps) {
      const std::string before = LogEnd();
      const auto step = store_->Purge(op);
      ASSERT_TRUE(step.ok()) << step.status();
      EXPECT_LT(LoggedSince(before), 32 * kMiB);
      purged += step->purged.size();
      op.after = step->next;
      if (!op.after) break;
    }
    EXPECT_EQ(purged, 60u);
    EXPECT_EQ(schema_->Value("SELECT count(*) FROM records"), "0");
  }
}

class PostgresSlowSweepTest : public PostgresSweepSizeTest {
 protected:
  void SetUp() override {
    // Of a step of some rows, not of one.
    statement_timeout_ = absl::Milliseconds(200);
    PostgresSweepSizeTest::SetUp();
  }
};
INSTANTIATE_TEST_SUITE_P(Statements, PostgresSlowSweepTest,
                         ::testing::Values(PostgresStatementMode::kBatched,
                                           PostgresStatementMode::kSingleRow),
                         ModeName);

constexpr char kSlowRows[] = R"sql(
CREATE FUNCTION is_there(key text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF key = '20' THEN RETURN true; END IF;
  PERFORM pg_sleep(0.02);
  RETURN {there};
END $$;
ALTER TABLE records RENAME TO pages;
CREATE VIEW records AS SELECT * FROM pages WHERE is_there(key)
)sql";

TEST_P(PostgresSlowSweepTest, AStepThatTakesTooLongIsRepeatedWithFewerRows) {
  for (const bool hashed : {false, true}) Insert(20, hashed, 1);
  Must(absl::StrReplaceAll(kSlowRows, {{"{there}", "true"}}));
  EXPECT_EQ(SweepAll().removed, 40);
}

// As rows that were removed while an older snapshot is held: their entries of the index are read,
// and none counts towards the limit.
TEST_P(PostgresSlowSweepTest, OrFromASmallerRange) {
  for (const bool hashed : {false, true}) Insert(20, hashed, 1);
  Must(absl::StrReplaceAll(kSlowRows, {{"{there}", "false"}}));
  EXPECT_EQ(SweepAll().removed, 2);
}

}  // namespace
}  // namespace idempotency::internal
