#include <string>

#include "tests/conformance/store_fixture.h"

namespace idempotency::internal {
namespace {

constexpr absl::Duration kLease = absl::Seconds(30);
constexpr absl::Duration kTick = absl::Microseconds(1);

class CompleteTest : public StoreTest {};
IDEMPOTENCY_FOR_EVERY_STORE(CompleteTest);

TEST_P(CompleteTest, TheHolderCompletes) {
  const ReserveOp op = OpFor("done");
  const Reserved reserved = MustReserve(op);
  Advance(absl::Seconds(1));
  const absl::StatusOr<Completion> completion = Complete(op, reserved.token);
  ASSERT_THAT(completion, Succeeds());
  EXPECT_EQ(completion->completed_at, Now());
  EXPECT_EQ(completion->expires_at, reserved.expires_at);
  EXPECT_FALSE(completion->lease_overrun);
  EXPECT_FALSE(completion->repeated);
  const Record record = MustGet(op);
  EXPECT_EQ(record.state, RecordState::kCompleted);
  ASSERT_TRUE(record.reply.has_value());
  EXPECT_EQ(*record.reply, ReplyWith("paid"));
  EXPECT_EQ(record.completed_at, Now());
}

TEST_P(CompleteTest, AnotherTokenIsLostAndChangesNothing) {
  const ReserveOp op = OpFor("done");
  MustReserve(op);
  const std::string before = Describe(Get(op));
  const absl::StatusOr<Completion> completion = Complete(op, Uuid::Random());
  EXPECT_THAT(completion, FailsWith(Reason::kReservationLost));
  EXPECT_EQ(completion.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Describe(Get(op)), before);
}

TEST_P(CompleteTest, TheRequestTokenAuthorisesNothing) {
  ReserveOp op = OpFor("done");
  op.request_token = Uuid::Random();
  MustReserve(op);
  EXPECT_THAT(Complete(op, *op.request_token), FailsWith(Reason::kReservationLost));
}

TEST_P(CompleteTest, WithoutARecordItIsLost) {
  EXPECT_THAT(Complete(OpFor("never"), Uuid::Random()), FailsWith(Reason::kReservationLost));
}

TEST_P(CompleteTest, AlsoAfterTheLeaseWithoutATakeOver) {
  const ReserveOp op = OpFor("late");
  const Reserved reserved = MustReserve(op);
  Advance(kLease);
  const absl::StatusOr<Completion> completion = Complete(op, reserved.token);
  ASSERT_THAT(completion, Succeeds());
  EXPECT_TRUE(completion->lease_overrun);
  Expect<Replay>(Reserve(op));
}

TEST_P(CompleteTest, InTheLastMicrosecondOfTheLeaseItIsNoOverrun) {
  const ReserveOp op = OpFor("late");
  const Reserved reserved = MustReserve(op);
  Advance(kLease - kTick);
  const absl::StatusOr<Completion> completion = Complete(op, reserved.token);
  ASSERT_THAT(completion, Succeeds());
  EXPECT_FALSE(completion->lease_overrun);
}

TEST_P(CompleteTest, NotAfterATakeOver) {
  const ReserveOp op = OpFor("late");
  const Reserved first = MustReserve(op);
  Advance(kLease);
  const Reserved second = MustReserve(op);
  EXPECT_THAT(Complete(op, first.token, "first"), FailsWith(Reason::kReservationLost));
  EXPECT_THAT(Complete(op, second.token, "second"), Succeeds());
  EXPECT_THAT(Complete(op, first.token, "first"), FailsWith(Reason::kReservationLost));
  EXPECT_THAT(Complete(op, first.token, "second"), FailsWith(Reason::kReservationLost));
  EXPECT_EQ(Expect<Replay>(Reserve(op)).reply, ReplyWith("second"));
}

TEST_P(CompleteTest, UnknownCanStillBeCompletedByItsHolder) {
  ReserveOp op = OpFor("unknown");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  const Reserved reserved = MustReserve(op);
  Advance(kLease);
  Expect<OutcomeUnknown>(Reserve(op));
  EXPECT_THAT(Complete(op, Uuid::Random()), FailsWith(Reason::kReservationLost));
  const absl::StatusOr<Completion> completion = Complete(op, reserved.token);
  ASSERT_THAT(completion, Succeeds());
  EXPECT_TRUE(completion->lease_overrun);
  EXPECT_EQ(Expect<Replay>(Reserve(op)).attempt, 1u);
}

TEST_P(CompleteTest, TheSameReplyAgainIsOk) {
  const ReserveOp op = OpFor("twice");
  const Reserved reserved = MustReserve(op);
  const absl::StatusOr<Completion> first = Complete(op, reserved.token);
  ASSERT_THAT(first, Succeeds());
  Advance(absl::Hours(1));
  const std::string before = Describe(Get(op));
  const absl::StatusOr<Completion> again = Complete(op, reserved.token);
  ASSERT_THAT(again, Succeeds());
  EXPECT_TRUE(again->repeated);
  EXPECT_EQ(again->completed_at, first->completed_at);
  EXPECT_EQ(again->expires_at, first->expires_at);
  EXPECT_FALSE(again->lease_overrun) << "as the first time";
  EXPECT_EQ(Describe(Get(op)), before);
}

TEST_P(CompleteTest, AnotherReplyAgainIsLost) {
  const ReserveOp op = OpFor("twice");
  const Reserved reserved = MustReserve(op);
  ASSERT_THAT(Complete(op, reserved.token, "first"), Succeeds());
  EXPECT_THAT(Complete(op, reserved.token, "second"), FailsWith(Reason::kReservationLost));
  EXPECT_EQ(Expect<Replay>(Reserve(op)).reply, ReplyWith("first"));
}

TEST_P(CompleteTest, TheSameReplyUnderAnotherTokenIsLost) {
  const ReserveOp op = OpFor("twice");
  ASSERT_THAT(Complete(op, MustReserve(op).token), Succeeds());
  EXPECT_THAT(Complete(op, Uuid::Random()), FailsWith(Reason::kReservationLost));
}

TEST_P(CompleteTest, AfterReleaseItIsLost) {
  const ReserveOp op = OpFor("released");
  const Reserved reserved = MustReserve(op);
  ASSERT_THAT(Release(op, reserved.token), Succeeds());
  EXPECT_THAT(Complete(op, reserved.token), FailsWith(Reason::kReservationLost));
  EXPECT_EQ(MustGet(op).state, RecordState::kReleased);
}

TEST_P(CompleteTest, FromTheInstantOfExpiryItIsLost) {
  const ReserveOp early = OpFor("early");
  const ReserveOp late = OpFor("late");
  const Uuid early_token = MustReserve(early).token;
  const Uuid late_token = MustReserve(late).token;
  Advance(early.retention - kTick);
  EXPECT_THAT(Complete(early, early_token), Succeeds());
  Advance(kTick);
  EXPECT_THAT(Complete(late, late_token), FailsWith(Reason::kReservationLost));
  EXPECT_THAT(Complete(early, early_token), FailsWith(Reason::kReservationLost)) << "a repeat too";
}

TEST_P(CompleteTest, AfterExpiryItIsLostUnderRequireRecoveryToo) {
  ReserveOp lapsed = OpFor("lapsed");
  lapsed.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  const Uuid lapsed_token = MustReserve(lapsed).token;
  ReserveOp unknown = OpFor("unknown");
  unknown.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  const Uuid unknown_token = MustReserve(unknown).token;
  ASSERT_THAT(Release(unknown, unknown_token, /*outcome_unknown=*/true), Succeeds());
  Advance(lapsed.retention);
  EXPECT_THAT(Complete(lapsed, lapsed_token), FailsWith(Reason::kReservationLost));
  EXPECT_THAT(Complete(unknown, unknown_token), FailsWith(Reason::kReservationLost));
}

TEST_P(CompleteTest, ALargeReplyComesBackByteForByte) {
  const ReserveOp op = OpFor("large");
  std::string body(1 << 20, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 31 + i / 256);
  ASSERT_THAT(Complete(op, MustReserve(op).token, body), Succeeds());
  EXPECT_TRUE(Expect<Replay>(Reserve(op)).reply == ReplyWith(body));
}

}  // namespace
}  // namespace idempotency::internal
