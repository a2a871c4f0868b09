// How long a record is kept, and which part of it is left afterwards.
#include <optional>

#include "grpc_idempotency/record_key.h"
#include "server/store/limits.h"
#include "tests/conformance/store_fixture.h"

namespace idempotency::internal {
namespace {

constexpr absl::Duration kLease = absl::Seconds(30);
constexpr absl::Duration kTick = absl::Microseconds(1);

class RetentionTest : public StoreTest {};
IDEMPOTENCY_FOR_EVERY_STORE(RetentionTest);

TEST_P(RetentionTest, AnOpaqueKeyIsKeptForItsRetention) {
  ReserveOp op = OpFor("opaque");
  op.retention = absl::Hours(2);
  op.window = absl::Hours(100);
  EXPECT_EQ(MustReserve(op).expires_at, Now() + absl::Hours(2));
}

TEST_P(RetentionTest, ATimedKeyIsKeptForTheLongerOfRetentionAndWindow) {
  ReserveOp op = OpFor(KeyMadeAt(Now() - absl::Hours(1)));
  op.retention = absl::Hours(2);
  op.window = absl::Hours(10);
  EXPECT_EQ(MustReserve(op).expires_at, Now() + absl::Hours(10));
  op = OpFor(KeyMadeAt(Now() - absl::Hours(1)));
  op.retention = absl::Hours(20);
  op.window = absl::Hours(10);
  EXPECT_EQ(MustReserve(op).expires_at, Now() + absl::Hours(20));
}

TEST_P(RetentionTest, AKeyFromAheadIsCountedFromItsOwnTime) {
  const ReserveOp op = OpFor(KeyMadeAt(Now() + absl::Hours(5)));
  const std::optional<absl::Time> made_at = KeyTime(op.key);
  ASSERT_TRUE(made_at.has_value());
  EXPECT_EQ(MustReserve(op).expires_at, *made_at + absl::Hours(24));
}

TEST_P(RetentionTest, ARecordIsForgottenAtItsLastInstant) {
  const ReserveOp op = OpFor("boundary");
  ASSERT_THAT(Release(op, MustReserve(op).token), Succeeds());
  Advance(op.retention - kTick);
  EXPECT_THAT(Get(op), Succeeds());
  EXPECT_EQ(SweepAll().removed, 0);
  Advance(kTick);
  EXPECT_THAT(Get(op), FailsWith(Reason::kRecordNotFound));
  Advance(limits::kClockStepMargin);
  EXPECT_EQ(SweepAll().removed, 1);
}

TEST_P(RetentionTest, NothingButARecoveryGrantMovesTheEnd) {
  const ReserveOp op = OpFor("steady");
  const Reserved first = MustReserve(op);
  Advance(absl::Seconds(5));
  ASSERT_THAT(Extend(op, first.token, absl::Hours(1)), Succeeds());
  EXPECT_EQ(MustGet(op).expires_at, first.expires_at);
  ASSERT_THAT(Release(op, first.token), Succeeds());
  EXPECT_EQ(MustGet(op).expires_at, first.expires_at);
  Advance(absl::Seconds(5));
  ReserveOp longer = op;
  longer.retention = absl::Hours(100);
  MustReserve(longer);
  EXPECT_EQ(MustGet(op).expires_at, first.expires_at);
  Advance(kLease);
  const Reserved third = MustReserve(longer);
  EXPECT_EQ(MustGet(op).expires_at, first.expires_at);
  ASSERT_THAT(Complete(op, third.token), Succeeds());
  EXPECT_EQ(MustGet(op).expires_at, first.expires_at);
}

class RecoveryRetentionTest : public StoreTest {
 protected:
  ReserveOp UnknownAfter(absl::Duration age) {
    ReserveOp op = OpFor("recovered");
    op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
    first_ = MustReserve(op);
    EXPECT_THAT(Release(op, first_.token, /*outcome_unknown=*/true), Succeeds());
    Advance(age);
    op.recover = true;
    return op;
  }

  Reserved first_;
};
IDEMPOTENCY_FOR_EVERY_STORE(RecoveryRetentionTest);

TEST_P(RecoveryRetentionTest, ARecoveryGrantMovesTheEnd) {
  ReserveOp op = UnknownAfter(absl::Hours(10));
  op.retention = absl::Hours(20);
  EXPECT_EQ(MustReserve(op).expires_at, Now() + absl::Hours(20));
  EXPECT_EQ(MustGet(op).expires_at, Now() + absl::Hours(20));
}

TEST_P(RecoveryRetentionTest, ButNeverToAnEarlierTime) {
  ReserveOp op = UnknownAfter(absl::Hours(1));
  op.retention = absl::Hours(2);
  EXPECT_EQ(MustReserve(op).expires_at, first_.expires_at);
}

TEST_P(RecoveryRetentionTest, AlsoFromALapsedReservation) {
  ReserveOp op = OpFor("lapsed");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  MustReserve(op);
  Advance(absl::Hours(1));
  op.recover = true;
  EXPECT_EQ(MustReserve(op).expires_at, Now() + op.retention);
}

TEST_P(RecoveryRetentionTest, UnknownIsNeverForgotten) {
  const ReserveOp op = UnknownAfter(absl::Hours(24 * 400));
  EXPECT_EQ(SweepAll().removed, 0);
  EXPECT_EQ(MustGet(op).state, RecordState::kUnknown);
  ReserveOp plain = op;
  plain.recover = false;
  Expect<OutcomeUnknown>(Reserve(plain));
  const Reserved second = MustReserve(op);
  EXPECT_EQ(second.attempt, 2u);
  EXPECT_FALSE(second.after_expiry);
  EXPECT_EQ(second.lease_remaining, kLease) << "the lease is clipped to the new end";
  EXPECT_EQ(second.expires_at, Now() + op.retention);
  EXPECT_THAT(Complete(op, second.token), Succeeds());
}

TEST_P(RecoveryRetentionTest, AReservationUnderRequireRecoveryIsNeverForgotten) {
  ReserveOp op = OpFor("lapsed");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  MustReserve(op);
  Advance(op.retention + absl::Hours(1));
  EXPECT_EQ(MustGet(op).state, RecordState::kReserved);
  Expect<OutcomeUnknown>(Reserve(op));
  op.recover = true;
  const Reserved second = MustReserve(op);
  EXPECT_EQ(second.attempt, 2u);
  EXPECT_TRUE(second.recovering);
}

TEST_P(RecoveryRetentionTest, NorIsItsTimedKeyEverOutsideTheWindow) {
  ReserveOp op = OpFor(KeyMadeAt(Now()));
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  MustReserve(op);
  Advance(absl::Hours(100));
  Expect<OutcomeUnknown>(Reserve(op));
}

TEST_P(RecoveryRetentionTest, ARepeatedRequestTokenPastTheEndGetsALeaseOfNothing) {
  ReserveOp op = OpFor("lapsed");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  op.request_token = Uuid::Random();
  const Reserved first = MustReserve(op);
  Advance(op.retention);
  const Reserved again = MustReserve(op);
  EXPECT_EQ(again.token, first.token);
  EXPECT_EQ(again.lease_remaining, absl::ZeroDuration());
  EXPECT_THAT(Complete(op, again.token), FailsWith(Reason::kReservationLost));
}

}  // namespace
}  // namespace idempotency::internal
