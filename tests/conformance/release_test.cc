#include <string>

#include "grpc_idempotency/limits.h"
#include "tests/conformance/store_fixture.h"

namespace idempotency::internal {
namespace {

constexpr absl::Duration kLease = absl::Seconds(30);

class ReleaseTest : public StoreTest {};
IDEMPOTENCY_FOR_EVERY_STORE(ReleaseTest);

TEST_P(ReleaseTest, TheRowStaysAndAttemptsKeepCounting) {
  const ReserveOp op = OpFor("released");
  for (std::uint32_t attempt = 1; attempt <= 5; ++attempt) {
    const Reserved reserved = MustReserve(op);
    EXPECT_EQ(reserved.attempt, attempt);
    ASSERT_THAT(Release(op, reserved.token), Succeeds());
    const Record record = MustGet(op);
    EXPECT_EQ(record.state, RecordState::kReleased);
    EXPECT_EQ(record.attempt, attempt);
    EXPECT_EQ(record.release_reason, "the reason");
  }
}

TEST_P(ReleaseTest, AnUnknownOutcomeBecomesUnknown) {
  const ReserveOp op = OpFor("unknown");
  const Reserved reserved = MustReserve(op);
  ASSERT_THAT(Release(op, reserved.token, /*outcome_unknown=*/true), Succeeds());
  const Record record = MustGet(op);
  EXPECT_EQ(record.state, RecordState::kUnknown);
  EXPECT_EQ(record.release_reason, "the reason");
}

TEST_P(ReleaseTest, WithoutAPauseTheLeaseEndsNow) {
  const ReserveOp op = OpFor("released");
  const Reserved first = MustReserve(op);
  Advance(absl::Seconds(3));
  ASSERT_THAT(Release(op, first.token), Succeeds());
  EXPECT_EQ(MustGet(op).lease_expires_at, Now());
  EXPECT_EQ(MustReserve(op).attempt, 2u);
}

TEST_P(ReleaseTest, APauseIsKeptInTheLeasesPlace) {
  const ReserveOp op = OpFor("paused");
  ASSERT_THAT(Release(op, MustReserve(op).token, false, absl::Minutes(5)), Succeeds());
  EXPECT_EQ(MustGet(op).lease_expires_at, Now() + absl::Minutes(5));
}

TEST_P(ReleaseTest, APauseEndsWithTheRecord) {
  ReserveOp op = OpFor("paused");
  op.retention = absl::Minutes(1);
  const Reserved first = MustReserve(op);
  Advance(absl::Seconds(10));
  ASSERT_THAT(Release(op, first.token, false, limits::kMaxReleasePause), Succeeds());
  EXPECT_EQ(MustGet(op).lease_expires_at, first.expires_at);
  EXPECT_EQ(Expect<InFlight>(Reserve(op)).lease_remaining, absl::Seconds(50));
  Advance(absl::Seconds(50));
  EXPECT_EQ(MustReserve(op).attempt, 1u) << "the record was forgotten";
}

TEST_P(ReleaseTest, RepeatingItDoesNotMoveThePause) {
  const ReserveOp op = OpFor("paused");
  const Reserved first = MustReserve(op);
  ASSERT_THAT(Release(op, first.token, false, absl::Seconds(10)), Succeeds());
  Advance(absl::Seconds(4));
  ASSERT_THAT(Release(op, first.token, false, absl::Minutes(10)), Succeeds());
  ASSERT_THAT(Release(op, first.token), Succeeds());
  EXPECT_EQ(Expect<InFlight>(Reserve(op)).lease_remaining, absl::Seconds(6));
}

TEST_P(ReleaseTest, AnUnknownOutcomeHasNoPause) {
  ReserveOp op = OpFor("unknown");
  const Reserved first = MustReserve(op);
  ASSERT_THAT(Release(op, first.token, /*outcome_unknown=*/true, absl::Minutes(5)), Succeeds());
  EXPECT_EQ(MustGet(op).lease_expires_at, Now());
  EXPECT_EQ(Expect<OutcomeUnknown>(Reserve(op)).since, Now());
  op.recover = true;
  EXPECT_EQ(MustReserve(op).attempt, 2u);
}

TEST_P(ReleaseTest, TheReasonIsThatOfTheLastAttemptThatEnded) {
  const ReserveOp op = OpFor("released-then-lapsed");
  ASSERT_THAT(Release(op, MustReserve(op).token), Succeeds());
  MustReserve(op);
  EXPECT_EQ(MustGet(op).release_reason, "the reason") << "of attempt 1";
  Advance(kLease);
  MustReserve(op);
  EXPECT_EQ(MustGet(op).release_reason, "") << "the lease of attempt 2 ran out";
}

TEST_P(ReleaseTest, AnotherTokenIsLostAndChangesNothing) {
  const ReserveOp op = OpFor("held");
  MustReserve(op);
  const std::string before = Describe(Get(op));
  EXPECT_THAT(Release(op, Uuid::Random()), FailsWith(Reason::kReservationLost));
  EXPECT_THAT(Release(op, Uuid::Random(), true), FailsWith(Reason::kReservationLost));
  EXPECT_EQ(Describe(Get(op)), before);
}

TEST_P(ReleaseTest, WithoutARecordItIsLost) {
  EXPECT_THAT(Release(OpFor("never"), Uuid::Random()), FailsWith(Reason::kReservationLost));
}

TEST_P(ReleaseTest, RepeatingItIsOkAndChangesNothing) {
  for (const bool unknown : {false, true}) {
    const ReserveOp op = OpFor(unknown ? "unknown" : "released");
    const Reserved reserved = MustReserve(op);
    ASSERT_THAT(Release(op, reserved.token, unknown), Succeeds());
    const std::string before = Describe(Get(op));
    EXPECT_THAT(Release(op, reserved.token, unknown), Succeeds());
    EXPECT_EQ(Describe(Get(op)), before);
  }
}

TEST_P(ReleaseTest, TheOtherOutcomeAfterwardsIsLost) {
  for (const bool unknown : {false, true}) {
    const ReserveOp op = OpFor(unknown ? "unknown" : "released");
    const Reserved reserved = MustReserve(op);
    ASSERT_THAT(Release(op, reserved.token, unknown), Succeeds());
    const std::string before = Describe(Get(op));
    EXPECT_THAT(Release(op, reserved.token, !unknown), FailsWith(Reason::kReservationLost));
    EXPECT_EQ(Describe(Get(op)), before);
  }
}

TEST_P(ReleaseTest, ALateReleaseCannotTouchTheNextAttempt) {
  const ReserveOp op = OpFor("late");
  const Reserved first = MustReserve(op);
  ASSERT_THAT(Release(op, first.token), Succeeds());
  MustReserve(op);
  const std::string before = Describe(Get(op));
  EXPECT_THAT(Release(op, first.token), FailsWith(Reason::kReservationLost));
  EXPECT_EQ(Describe(Get(op)), before);
}

TEST_P(ReleaseTest, AfterCompleteItIsLost) {
  const ReserveOp op = OpFor("done");
  const Reserved reserved = MustReserve(op);
  ASSERT_THAT(Complete(op, reserved.token), Succeeds());
  EXPECT_THAT(Release(op, reserved.token), FailsWith(Reason::kReservationLost));
  EXPECT_THAT(Release(op, reserved.token, true), FailsWith(Reason::kReservationLost));
  Expect<Replay>(Reserve(op));
}

TEST_P(ReleaseTest, AfterTheLeaseItWorksWithoutATakeOver) {
  const ReserveOp op = OpFor("late");
  const Reserved reserved = MustReserve(op);
  Advance(kLease);
  EXPECT_THAT(Release(op, reserved.token), Succeeds());
  EXPECT_EQ(MustGet(op).state, RecordState::kReleased);
}

TEST_P(ReleaseTest, AForgottenRecordIsLost) {
  const ReserveOp held = OpFor("held");
  const Uuid held_token = MustReserve(held).token;
  const ReserveOp released = OpFor("released");
  const Uuid released_token = MustReserve(released).token;
  ASSERT_THAT(Release(released, released_token), Succeeds());
  Advance(held.retention);
  EXPECT_THAT(Release(held, held_token), FailsWith(Reason::kReservationLost));
  EXPECT_THAT(Release(released, released_token), FailsWith(Reason::kReservationLost));
}

TEST_P(ReleaseTest, AReservationThatIsNotForgottenCanBeReleasedAfterItsEnd) {
  ReserveOp op = OpFor("held");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  const Reserved reserved = MustReserve(op);
  Advance(op.retention);
  ASSERT_THAT(Release(op, reserved.token), Succeeds());
  EXPECT_THAT(Get(op), FailsWith(Reason::kRecordNotFound)) << "now it is forgotten";
}

}  // namespace
}  // namespace idempotency::internal
