#include <string>

#include "tests/conformance/store_fixture.h"

namespace idempotency::internal {
namespace {

constexpr absl::Duration kLease = absl::Seconds(30);
constexpr absl::Duration kTick = absl::Microseconds(1);

class ExtendTest : public StoreTest {};
IDEMPOTENCY_FOR_EVERY_STORE(ExtendTest);

TEST_P(ExtendTest, TheLeaseIsCountedFromNow) {
  const ReserveOp op = OpFor("held");
  const Reserved reserved = MustReserve(op);
  Advance(absl::Seconds(10));
  const absl::StatusOr<Extension> extension = Extend(op, reserved.token, kLease);
  ASSERT_THAT(extension, Succeeds());
  EXPECT_EQ(extension->lease_remaining, kLease);
  EXPECT_EQ(MustGet(op).lease_expires_at, Now() + kLease);
  Advance(kLease - kTick);
  Expect<InFlight>(Reserve(op));
  Advance(kTick);
  EXPECT_EQ(MustReserve(op).attempt, 2u);
}

TEST_P(ExtendTest, NeverShortens) {
  const ReserveOp op = OpFor("held");
  const Reserved reserved = MustReserve(op);
  const absl::StatusOr<Extension> extension = Extend(op, reserved.token, absl::Seconds(1));
  ASSERT_THAT(extension, Succeeds());
  EXPECT_EQ(extension->lease_remaining, kLease);
  EXPECT_EQ(MustGet(op).lease_expires_at, Now() + kLease);
}

TEST_P(ExtendTest, NeverBeyondTheRecordsEnd) {
  ReserveOp op = OpFor("held");
  op.retention = absl::Seconds(40);
  const Reserved reserved = MustReserve(op);
  const absl::StatusOr<Extension> extension = Extend(op, reserved.token, absl::Hours(1));
  ASSERT_THAT(extension, Succeeds());
  EXPECT_EQ(extension->lease_remaining, absl::Seconds(40));
  EXPECT_EQ(MustGet(op).lease_expires_at, reserved.expires_at);
}

TEST_P(ExtendTest, WorksAfterTheLeaseWithoutATakeOver) {
  const ReserveOp op = OpFor("late");
  const Reserved reserved = MustReserve(op);
  Advance(absl::Minutes(5));
  const absl::StatusOr<Extension> extension = Extend(op, reserved.token, kLease);
  ASSERT_THAT(extension, Succeeds());
  EXPECT_EQ(extension->lease_remaining, kLease);
  Expect<InFlight>(Reserve(op));
}

TEST_P(ExtendTest, NotAfterATakeOver) {
  const ReserveOp op = OpFor("late");
  const Reserved first = MustReserve(op);
  Advance(kLease);
  MustReserve(op);
  const std::string before = Describe(Get(op));
  EXPECT_THAT(Extend(op, first.token, absl::Hours(1), "mine"), FailsWith(Reason::kReservationLost));
  EXPECT_EQ(Describe(Get(op)), before);
  Advance(kLease);
  EXPECT_EQ(MustReserve(op).checkpoint, "") << "nor did its checkpoint get in";
}

TEST_P(ExtendTest, NeverRevivesUnknown) {
  ReserveOp op = OpFor("unknown");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  const Reserved reserved = MustReserve(op);
  Advance(kLease);
  Expect<OutcomeUnknown>(Reserve(op));
  EXPECT_THAT(Extend(op, reserved.token, kLease), FailsWith(Reason::kReservationLost));
  EXPECT_EQ(MustGet(op).state, RecordState::kUnknown);
}

TEST_P(ExtendTest, OnlyTheHolderOfAReservation) {
  const ReserveOp op = OpFor("held");
  EXPECT_THAT(Extend(op, Uuid::Random(), kLease), FailsWith(Reason::kReservationLost));
  const Reserved reserved = MustReserve(op);
  EXPECT_THAT(Extend(op, Uuid::Random(), absl::Hours(1)), FailsWith(Reason::kReservationLost));
  EXPECT_EQ(MustGet(op).lease_expires_at, Now() + kLease);
  ASSERT_THAT(Release(op, reserved.token), Succeeds());
  EXPECT_THAT(Extend(op, reserved.token, kLease), FailsWith(Reason::kReservationLost));
  const Reserved second = MustReserve(op);
  ASSERT_THAT(Complete(op, second.token), Succeeds());
  EXPECT_THAT(Extend(op, second.token, kLease), FailsWith(Reason::kReservationLost));
  Expect<Replay>(Reserve(op));
}

TEST_P(ExtendTest, FromTheInstantOfExpiryItIsLost) {
  for (const LeaseExpiry policy : {LeaseExpiry::kTakeOver, LeaseExpiry::kRequireRecovery}) {
    ReserveOp op = OpFor(policy == LeaseExpiry::kTakeOver ? "take-over" : "recovery");
    op.on_lease_expiry = policy;
    op.retention = absl::Minutes(1);
    const Reserved reserved = MustReserve(op);
    Advance(op.retention - kTick);
    EXPECT_THAT(Extend(op, reserved.token, kLease), Succeeds());
    Advance(kTick);
    EXPECT_THAT(Extend(op, reserved.token, kLease), FailsWith(Reason::kReservationLost));
  }
}

TEST_P(ExtendTest, TheNextAttemptReceivesTheCheckpoint) {
  const ReserveOp op = OpFor("steps");
  const Reserved first = MustReserve(op);
  const std::string checkpoint("step\0 2\xff", 8);
  ASSERT_THAT(Extend(op, first.token, kLease, "step 1"), Succeeds());
  ASSERT_THAT(Extend(op, first.token, kLease, checkpoint), Succeeds());
  ASSERT_THAT(Extend(op, first.token, kLease), Succeeds()) << "without one it stays";
  Advance(kLease);
  EXPECT_EQ(MustReserve(op).checkpoint, checkpoint);
  Advance(kLease);
  EXPECT_EQ(MustReserve(op).checkpoint, checkpoint) << "and the attempt after that one";
}

TEST_P(ExtendTest, TheCheckpointOutlivesARelease) {
  const ReserveOp op = OpFor("steps");
  const Reserved first = MustReserve(op);
  ASSERT_THAT(Extend(op, first.token, kLease, "step 1"), Succeeds());
  ASSERT_THAT(Release(op, first.token), Succeeds());
  EXPECT_EQ(MustReserve(op).checkpoint, "step 1");
}

TEST_P(ExtendTest, RecoveryReceivesTheCheckpoint) {
  ReserveOp op = OpFor("steps");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  ASSERT_THAT(Extend(op, MustReserve(op).token, kLease, "step 1"), Succeeds());
  Advance(kLease);
  op.recover = true;
  op.request_token = Uuid::Random();
  EXPECT_EQ(MustReserve(op).checkpoint, "step 1");
  EXPECT_EQ(MustReserve(op).checkpoint, "step 1") << "and its repeat";
}

TEST_P(ExtendTest, AnEmptyCheckpointReplacesTheStoredOne) {
  const ReserveOp op = OpFor("steps");
  const Reserved first = MustReserve(op);
  ASSERT_THAT(Extend(op, first.token, kLease, "step 1"), Succeeds());
  ASSERT_THAT(Extend(op, first.token, kLease, ""), Succeeds());
  Advance(kLease);
  EXPECT_EQ(MustReserve(op).checkpoint, GetParam().keeps_checkpoint_because ? "step 1" : "");
}

TEST_P(ExtendTest, ACheckpointOfTheLargestSizeFits) {
  const ReserveOp op = OpFor("steps");
  const std::string checkpoint(4096, 'x');
  ASSERT_THAT(Extend(op, MustReserve(op).token, kLease, checkpoint), Succeeds());
  Advance(kLease);
  EXPECT_EQ(MustReserve(op).checkpoint, checkpoint);
}

}  // namespace
}  // namespace idempotency::internal
