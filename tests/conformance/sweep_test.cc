#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/record_key.h"
#include "server/store/limits.h"
#include "tests/conformance/store_fixture.h"

namespace idempotency::internal {
namespace {

constexpr absl::Duration kLease = absl::Seconds(30);

class SweepTest : public StoreTest {};
IDEMPOTENCY_FOR_EVERY_STORE(SweepTest);

TEST_P(SweepTest, AnEmptyStoreIsSweptAtOnce) {
  const absl::StatusOr<SweepProgress> progress = store().Sweep({});
  ASSERT_THAT(progress, Succeeds());
  EXPECT_EQ(progress->removed, 0);
  EXPECT_FALSE(progress->next.has_value());
}

TEST_P(SweepTest, OnlyForgottenRecordsAreRemoved) {
  const ReserveOp reserved = OpFor("reserved");
  MustReserve(reserved);
  const ReserveOp completed = OpFor("completed");
  ASSERT_THAT(Complete(completed, MustReserve(completed).token), Succeeds());
  const ReserveOp released = OpFor("released");
  ASSERT_THAT(Release(released, MustReserve(released).token), Succeeds());
  const ReserveOp unknown = OpFor("unknown");
  ASSERT_THAT(Release(unknown, MustReserve(unknown).token, true), Succeeds());
  ReserveOp recovery = OpFor("recovery");
  recovery.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  MustReserve(recovery);
  ReserveOp longer = OpFor("longer");
  longer.retention = absl::Hours(48);
  MustReserve(longer);

  EXPECT_EQ(SweepAll().removed, 0);
  Advance(absl::Hours(24) + limits::kClockStepMargin);
  const SweepProgress swept = SweepAll();
  EXPECT_EQ(swept.removed, 3);
  EXPECT_EQ(swept.marked_unknown, 1);
  EXPECT_EQ(MustGet(unknown).state, RecordState::kUnknown);
  EXPECT_EQ(MustGet(recovery).state, RecordState::kUnknown);
  EXPECT_EQ(MustGet(longer).state, RecordState::kReserved) << "its policy takes over";
  for (const ReserveOp& gone : {reserved, completed, released}) {
    EXPECT_FALSE(MustReserve(gone).after_expiry) << "no row is left";
  }
}

TEST_P(SweepTest, ALapsedReservationUnderRequireRecoveryBecomesUnknown) {
  ReserveOp op = OpFor("lapsed");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  MustReserve(op);
  Advance(kLease - absl::Microseconds(1));
  EXPECT_EQ(SweepAll().marked_unknown, 0);
  EXPECT_EQ(MustGet(op).state, RecordState::kReserved);
  Advance(absl::Microseconds(1));
  EXPECT_EQ(SweepAll().marked_unknown, 1);
  EXPECT_EQ(MustGet(op).state, RecordState::kUnknown);
  EXPECT_EQ(SweepAll().marked_unknown, 0) << "once";
  Expect<OutcomeUnknown>(Reserve(op));
}

TEST_P(SweepTest, APassGoesPageByPage) {
  constexpr int kRecords = 25;
  std::vector<ReserveOp> ops;
  for (int i = 0; i < kRecords; ++i) {
    // Both kinds of id; every third record is to stay.
    ops.push_back(OpFor(i % 2 == 0 ? absl::StrCat("key-", i) : KeyMadeAt(Now())));
    if (i % 3 == 0) ops.back().retention = absl::Hours(100);
    MustReserve(ops.back());
  }
  Advance(absl::Hours(25));
  const SweepProgress swept = SweepAll(/*limit=*/4);
  EXPECT_EQ(swept.removed, kRecords - 9);
  for (int i = 0; i < kRecords; ++i) EXPECT_EQ(Get(ops[i]).ok(), i % 3 == 0) << i;
}

TEST_P(SweepTest, AStepEndsAtItsLimit) {
  constexpr int kRecords = 24;
  constexpr int kStep = 4;
  for (int i = 0; i < kRecords; ++i) {
    MustReserve(OpFor(i % 2 == 0 ? absl::StrCat("key-", i) : KeyMadeAt(Now())));
  }
  // A pass, and the end of each of its steps.
  std::vector<RecordId> places;
  SweepOp op;
  op.limit = kStep;
  std::int64_t visited = 0;
  do {
    const absl::StatusOr<SweepProgress> step = store().Sweep(op);
    ASSERT_THAT(step, Succeeds());
    EXPECT_LE(step->visited, kStep);
    visited += step->visited;
    if (step->next) places.push_back(*step->next);
    op.after = step->next;
  } while (op.after);
  EXPECT_EQ(visited, kRecords);
  ASSERT_GE(places.size(), 5u);

  // Between any two of them.
  for (std::size_t from = 0; from + 1 < 5; ++from) {
    for (std::size_t to = from + 1; to < 5; ++to) {
      op.after = places[from];
      op.until = places[to];
      const int between = kStep * static_cast<int>(to - from);
      op.limit = 1000;
      const absl::StatusOr<SweepProgress> all = store().Sweep(op);
      ASSERT_THAT(all, Succeeds());
      EXPECT_EQ(all->visited, between) << from << " to " << to;
      EXPECT_EQ(all->next, op.until);
      op.limit = between - 1;
      const absl::StatusOr<SweepProgress> most = store().Sweep(op);
      ASSERT_THAT(most, Succeeds());
      EXPECT_EQ(most->visited, between - 1);
      EXPECT_NE(most->next, op.until);
      EXPECT_TRUE(most->next.has_value());
    }
  }
  op.after = places[4];
  op.until.reset();
  op.limit = 1000;
  const absl::StatusOr<SweepProgress> rest = store().Sweep(op);
  ASSERT_THAT(rest, Succeeds());
  EXPECT_EQ(rest->visited, kRecords - 5 * kStep);
  EXPECT_FALSE(rest->next.has_value());
}

TEST_P(SweepTest, AForgottenRecordIsKeptUntilNoStepOfTheClockCanReviveIt) {
  const ReserveOp op = OpFor("kept");
  MustReserve(op);
  Advance(op.retention + limits::kClockStepMargin - absl::Microseconds(1));
  EXPECT_EQ(SweepAll().removed, 0);
  Advance(absl::Microseconds(1));
  EXPECT_EQ(SweepAll().removed, 1);
}

// The clock steps back after the sweep, as with a failover to a server whose clock is behind: the
// key's window is open again, and its record must still exist.
TEST_P(SweepTest, AfterAClockStepBackEveryKeyIsStillRecorded) {
  std::vector<ReserveOp> ops;
  for (const std::string& key : {KeyMadeAt(Now()), std::string("opaque")}) {
    ops.push_back(OpFor(key));
    ops.push_back(OpFor(key + "-tombstone"));
    if (key != "opaque") ops.back().key.key = KeyMadeAt(Now());
    ops.back().id = RecordIdFor(ops.back().key);
    ops.back().tombstone = absl::Hours(1);
  }
  for (const ReserveOp& op : ops) ASSERT_THAT(Complete(op, MustReserve(op).token), Succeeds());
  // Each at its most dangerous moment: just forgotten, and swept.
  Advance(ops.front().retention);
  SweepAll();
  for (const absl::Duration step : {absl::Seconds(45), limits::kClockStepMargin}) {
    Advance(-step);
    for (const ReserveOp& op : ops) {
      Expect<Replay>(Reserve(op));
      EXPECT_THAT(Get(op), Succeeds());
    }
    Advance(step);
    SweepAll();
  }
  // A tolerated step leads from a time at which rows may be swept to one at which they need not
  // exist any more.
  Advance(limits::kClockStepMargin);
  EXPECT_EQ(SweepAll().removed, 2);
  Advance(-limits::kClockStepMargin);
  Expect<Expired>(Reserve(ops[0]));
  Expect<Expired>(Reserve(ops[1]));
  Expect<Expired>(Reserve(ops[3]));
}

TEST_P(SweepTest, ARevivedRecordSurvives) {
  const ReserveOp op = OpFor("revived");
  MustReserve(op);
  Advance(op.retention);
  const Reserved revived = MustReserve(op);
  EXPECT_TRUE(revived.after_expiry);
  EXPECT_EQ(SweepAll().removed, 0);
  EXPECT_THAT(Complete(op, revived.token), Succeeds());
}

TEST_P(SweepTest, ARemovedRecordTakesItsCheckpointAlong) {
  const ReserveOp op = OpFor("steps");
  ASSERT_THAT(Extend(op, MustReserve(op).token, kLease, "old"), Succeeds());
  Advance(op.retention + limits::kClockStepMargin);
  EXPECT_EQ(SweepAll().removed, 1);
  EXPECT_EQ(MustReserve(op).checkpoint, "");
}

}  // namespace
}  // namespace idempotency::internal
