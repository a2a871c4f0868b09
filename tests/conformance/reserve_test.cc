// The table of states and verdicts, line by line.
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/reply.h"
#include "server/store/limits.h"
#include "tests/conformance/store_fixture.h"

namespace idempotency::internal {
namespace {

constexpr absl::Duration kLease = absl::Seconds(30);
constexpr absl::Duration kTick = absl::Microseconds(1);

class ReserveTest : public StoreTest {
 protected:
  // Attempt 1 ran out of its lease without a trace.
  ReserveOp Lapsed(LeaseExpiry policy, const std::string& key = "lapsed") {
    ReserveOp op = OpFor(key);
    op.on_lease_expiry = policy;
    first_ = MustReserve(op);
    Advance(kLease);
    return op;
  }
  ReserveOp Unknown(const std::string& key = "unknown") {
    ReserveOp op = OpFor(key);
    op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
    first_ = MustReserve(op);
    EXPECT_THAT(Release(op, first_.token, /*outcome_unknown=*/true), Succeeds());
    return op;
  }

  Reserved first_;
};
IDEMPOTENCY_FOR_EVERY_STORE(ReserveTest);

// Line 1.

// Two keys forced under one id.
class CollisionTest : public ReserveTest {
 protected:
  void SetUp() override {
    ReserveTest::SetUp();
    if (HasFatalFailure()) return;
    held_ = OpFor("held");
    token_ = MustReserve(held_).token;
    other_ = OpFor("other");
    other_.id = held_.id;
  }

  ReserveOp held_;
  ReserveOp other_;
  Uuid token_;
};
IDEMPOTENCY_FOR_EVERY_STORE(CollisionTest);

TEST_P(CollisionTest, Line1AnotherKeyUnderTheIdIsAnErrorAndChangesNothing) {
  const std::string before = Describe(Get(held_));
  const absl::StatusOr<Verdict> answer = Reserve(other_);
  EXPECT_THAT(answer, FailsWith(Reason::kRecordIdCollision));
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Describe(Get(held_)), before);
}

TEST_P(CollisionTest, Line1EachOfTheFourPartsCounts) {
  for (std::string RecordKey::*part :
       {&RecordKey::name_space, &RecordKey::scope, &RecordKey::operation, &RecordKey::key}) {
    ReserveOp op = held_;
    op.key.*part += "x";
    EXPECT_THAT(Reserve(op), FailsWith(Reason::kRecordIdCollision));
  }
}

TEST_P(CollisionTest, Line1ComesBeforeForgetting) {
  Advance(held_.retention + kLease);
  EXPECT_THAT(Reserve(other_), FailsWith(Reason::kRecordIdCollision));
}

TEST_P(CollisionTest, EveryOtherOperationRefusesToo) {
  const std::string before = Describe(Get(held_));
  EXPECT_THAT(Complete(other_, token_), FailsWith(Reason::kRecordIdCollision));
  EXPECT_THAT(Release(other_, token_), FailsWith(Reason::kRecordIdCollision));
  EXPECT_THAT(Extend(other_, token_, absl::Minutes(5), "checkpoint"),
              FailsWith(Reason::kRecordIdCollision));
  EXPECT_THAT(Get(other_), FailsWith(Reason::kRecordIdCollision));
  EXPECT_EQ(Describe(Get(held_)), before);
}

// Line 2.

TEST_P(ReserveTest, Line2UnknownKeyOutsideTheWindowIsExpired) {
  const ReserveOp op = OpFor(KeyMadeAt(Now() - absl::Hours(25)));
  Expect<Expired>(Reserve(op));
  EXPECT_THAT(Get(op), FailsWith(Reason::kRecordNotFound)) << "nothing is stored";
}

TEST_P(ReserveTest, Line2TheWindowIsThatOfTheOperation) {
  ReserveOp op = OpFor(KeyMadeAt(Now() - absl::Hours(25)));
  op.window = absl::Hours(26);
  MustReserve(op);
}

TEST_P(ReserveTest, Line2AKeyIsOutsideAtTheAgeOfExactlyOneWindow) {
  // Keys contain milliseconds; the store's clock is moved to a whole one.
  Advance(absl::Ceil(Now() - absl::UnixEpoch(), absl::Milliseconds(1)) -
          (Now() - absl::UnixEpoch()));
  const ReserveOp op = OpFor(KeyMadeAt(Now()));
  const ReserveOp sibling = OpFor(KeyMadeAt(Now()));
  Advance(op.window - kTick);
  MustReserve(sibling);
  Advance(kTick);
  Expect<Expired>(Reserve(op));
}

TEST_P(ReserveTest, Line2WithoutAWindowAnUnknownKeyIsExpiredAlsoIfItIsAheadOfTheStoresClock) {
  for (const absl::Duration ahead : {-absl::Hours(1), absl::ZeroDuration(), absl::Minutes(6),
                                     limits::kMaxKeyAhead - absl::Minutes(1)}) {
    ReserveOp op = OpFor(KeyMadeAt(Now() + ahead));
    op.window = kNoWindow;
    Expect<Expired>(Reserve(op));
    EXPECT_THAT(Get(op), FailsWith(Reason::kRecordNotFound)) << ahead;
  }
}

TEST_P(ReserveTest, Line2WithoutAWindowAKnownKeyIsAnsweredAsEver) {
  ReserveOp op = OpFor(KeyMadeAt(Now() + absl::Minutes(6)));
  ASSERT_THAT(Complete(op, MustReserve(op).token), Succeeds());
  op.window = kNoWindow;
  Expect<Replay>(Reserve(op));
}

TEST_P(ReserveTest, Line2NoGapBetweenRecordAndWindow) {
  // Reserved at once, completed, and repeated at every instant around the end of the record: a
  // replay, then expired, never a second run.
  Advance(absl::Ceil(Now() - absl::UnixEpoch(), absl::Milliseconds(1)) -
          (Now() - absl::UnixEpoch()));
  ReserveOp op = OpFor(KeyMadeAt(Now()));
  op.retention = absl::Hours(1);
  ASSERT_THAT(Complete(op, MustReserve(op).token), Succeeds());
  Advance(op.window - kTick);
  Expect<Replay>(Reserve(op));
  for (int i = 0; i < 3; ++i) {
    Advance(kTick);
    Expect<Expired>(Reserve(op));
  }
}

TEST_P(ReserveTest, Line2AForgottenRecordOutsideTheWindowStaysAsItIs) {
  ReserveOp op = OpFor(KeyMadeAt(Now()));
  op.retention = absl::Hours(48);
  const Reserved reserved = MustReserve(op);
  Advance(absl::Hours(48) + kLease);
  Expect<Expired>(Reserve(op));
  EXPECT_THAT(Complete(op, reserved.token), FailsWith(Reason::kReservationLost));
  Advance(limits::kClockStepMargin);
  EXPECT_EQ(SweepAll().removed, 1);
  Expect<Expired>(Reserve(op));
}

TEST_P(ReserveTest, Line2OnlyForForgottenRecords) {
  ReserveOp op = OpFor(KeyMadeAt(Now()));
  op.retention = absl::Hours(48);
  ASSERT_THAT(Complete(op, MustReserve(op).token), Succeeds());
  Advance(absl::Hours(47));
  Expect<Replay>(Reserve(op));
}

TEST_P(ReserveTest, KeyFromMoreThan24HoursAheadIsInvalid) {
  const ReserveOp op = OpFor(KeyMadeAt(Now() + absl::Hours(24) + absl::Milliseconds(2)));
  const absl::StatusOr<Verdict> answer = Reserve(op);
  EXPECT_THAT(answer, FailsWith(Reason::kKeyInvalid));
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Get(op), FailsWith(Reason::kRecordNotFound)) << "nothing is stored";
}

TEST_P(ReserveTest, KeyFromExactly24HoursAheadIsFine) {
  MustReserve(OpFor(KeyMadeAt(Now() + absl::Hours(24))));
}

// Line 3.

TEST_P(ReserveTest, Line3NewKeyIsReserved) {
  const ReserveOp op = OpFor("new");
  const Reserved reserved = MustReserve(op);
  EXPECT_EQ(reserved.attempt, 1u);
  EXPECT_EQ(reserved.lease_remaining, kLease);
  EXPECT_FALSE(reserved.token.is_nil());
  EXPECT_FALSE(reserved.recovering);
  EXPECT_EQ(reserved.checkpoint, "");
  EXPECT_EQ(reserved.created_at, Now());
  EXPECT_EQ(reserved.expires_at, Now() + op.retention);
  EXPECT_FALSE(reserved.took_over);
  EXPECT_FALSE(reserved.after_expiry);
  EXPECT_FALSE(reserved.repeated);
}

TEST_P(ReserveTest, Line3EverythingSentIsStored) {
  ReserveOp op = OpFor("new");
  op.fingerprints = {Print(1, 'a'), Print(2, 'b')};
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  op.parent = RecordKey{"orders", "tenant-1", "/orders.v1.Orders/Place", "parent"};
  op.labels = {{"build", "42"}, {"request", "r-1"}};
  MustReserve(op);
  const Record record = MustGet(op);
  EXPECT_EQ(record.id, op.id);
  EXPECT_EQ(record.key, op.key);
  EXPECT_EQ(record.state, RecordState::kReserved);
  EXPECT_EQ(record.attempt, 1u);
  ExpectFingerprints(record, op);
  EXPECT_EQ(record.on_lease_expiry, LeaseExpiry::kRequireRecovery);
  ASSERT_TRUE(record.parent.has_value());
  EXPECT_EQ(*record.parent, *op.parent);
  EXPECT_EQ(record.labels, op.labels);
  EXPECT_EQ(record.created_at, Now());
  EXPECT_EQ(record.lease_expires_at, Now() + kLease);
  EXPECT_EQ(record.expires_at, Now() + op.retention);
  EXPECT_EQ(record.release_reason, "");
  EXPECT_FALSE(record.completed_at.has_value());
  EXPECT_FALSE(record.reply.has_value());
}

TEST_P(ReserveTest, Line3AForgottenRecordStartsAfreshWithNothingOfTheOldOne) {
  ReserveOp old = OpFor("again");
  old.labels = {{"build", "41"}};
  old.parent = old.key;
  old.request_token = Uuid::Random();
  const Reserved first = MustReserve(old);
  ASSERT_THAT(Extend(old, first.token, kLease, "old checkpoint"), Succeeds());
  ASSERT_THAT(Release(old, first.token), Succeeds());
  const Reserved second = MustReserve([&] {
    ReserveOp op = old;
    op.request_token.reset();
    return op;
  }());
  ASSERT_THAT(Complete(old, second.token), Succeeds());
  Advance(old.retention);

  ReserveOp op = OpFor("again");
  op.fingerprints = {Print(3, 'z')};
  const Reserved reserved = MustReserve(op);
  EXPECT_EQ(reserved.attempt, 1u);
  EXPECT_TRUE(reserved.after_expiry);
  EXPECT_FALSE(reserved.took_over);
  EXPECT_EQ(reserved.created_at, Now());
  EXPECT_EQ(reserved.checkpoint, "");
  EXPECT_NE(reserved.token, second.token);
  const Record record = MustGet(op);
  EXPECT_EQ(record.state, RecordState::kReserved);
  EXPECT_EQ(record.attempt, 1u);
  ExpectFingerprints(record, op);
  EXPECT_TRUE(record.labels.empty());
  EXPECT_FALSE(record.parent.has_value());
  EXPECT_EQ(record.release_reason, "");
  EXPECT_FALSE(record.reply.has_value());
  EXPECT_FALSE(record.completed_at.has_value());
  EXPECT_EQ(record.expires_at, Now() + op.retention);
  EXPECT_THAT(Complete(old, second.token), FailsWith(Reason::kReservationLost));
}

TEST_P(ReserveTest, Line3AfterExpiryTheOldRequestTokenMeansNothing) {
  ReserveOp op = OpFor("again");
  op.request_token = Uuid::Random();
  const Reserved first = MustReserve(op);
  Advance(op.retention);
  const Reserved second = MustReserve(op);
  EXPECT_NE(second.token, first.token);
  EXPECT_FALSE(second.repeated);
}

TEST_P(ReserveTest, Line3ACheckpointDoesNotOutliveItsRecord) {
  const ReserveOp op = OpFor("again");
  ASSERT_THAT(Extend(op, MustReserve(op).token, kLease, "old"), Succeeds());
  Advance(op.retention);
  EXPECT_EQ(MustReserve(op).checkpoint, "");
  Advance(kLease);
  EXPECT_EQ(MustReserve(op).checkpoint, "") << "nor for the attempt after it";
}

TEST_P(ReserveTest, Line3TheLeaseEndsWithTheRecordAtTheLatest) {
  ReserveOp op = OpFor("short");
  op.retention = absl::Seconds(10);
  EXPECT_EQ(MustReserve(op).lease_remaining, absl::Seconds(10));
  EXPECT_EQ(MustGet(op).lease_expires_at, Now() + absl::Seconds(10));
}

// Line 4.

TEST_P(ReserveTest, Line4AnotherRequestIsAMismatchInEveryState) {
  ReserveOp reserved = OpFor("reserved");
  reserved.request_token = Uuid::Random();
  MustReserve(reserved);
  const ReserveOp completed = OpFor("completed");
  ASSERT_THAT(Complete(completed, MustReserve(completed).token), Succeeds());
  const ReserveOp released = OpFor("released");
  ASSERT_THAT(Release(released, MustReserve(released).token), Succeeds());
  const ReserveOp unknown = Unknown();
  for (ReserveOp op : {reserved, completed, released, unknown}) {
    const std::string before = Describe(Get(op));
    op.fingerprints = {Print(1, 'b')};
    op.recover = true;
    EXPECT_EQ(Expect<Mismatch>(Reserve(op)).attempt, 1u);
    EXPECT_EQ(Describe(Get(op)), before);
  }
}

TEST_P(ReserveTest, Line4ALapsedRecordIsNotTakenOverByAnotherRequest) {
  ReserveOp op = Lapsed(LeaseExpiry::kTakeOver);
  op.fingerprints = {Print(1, 'b')};
  Expect<Mismatch>(Reserve(op));
}

TEST_P(ReserveTest, Line4NoVersionInCommonIsAnError) {
  ReserveOp op = OpFor("versions");
  MustReserve(op);
  const std::string before = Describe(Get(op));
  op.fingerprints = {Print(2, 'a'), Print(3, 'a')};
  const absl::StatusOr<Verdict> answer = Reserve(op);
  EXPECT_THAT(answer, FailsWith(Reason::kFingerprintUnknown));
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Describe(Get(op)), before);
}

TEST_P(ReserveTest, Line4OneVersionInCommonIsEnough) {
  ReserveOp both = OpFor("versions");
  both.fingerprints = {Print(1, 'a'), Print(2, 'b')};
  MustReserve(both);
  ReserveOp only_old = both;
  only_old.fingerprints = {Print(1, 'a')};
  Expect<InFlight>(Reserve(only_old));
  ReserveOp only_new = both;
  only_new.fingerprints = {Print(2, 'b'), Print(3, 'c')};
  Expect<InFlight>(Reserve(only_new));
}

TEST_P(ReserveTest, Line4OneCommonVersionThatDiffersIsAMismatch) {
  ReserveOp op = OpFor("versions");
  op.fingerprints = {Print(1, 'a'), Print(2, 'b')};
  MustReserve(op);
  op.fingerprints = {Print(1, 'a'), Print(2, 'x')};
  Expect<Mismatch>(Reserve(op));
}

// A row that an older version stored.
TEST_P(ReserveTest, OneVersionUnderSeveralKeysIsReadable) {
  ReserveOp op = OpFor("keyed");
  op.fingerprints = {Print(1, 'a'), Print(1, 'b')};
  op.fingerprints[1].key_id = 7;
  const absl::StatusOr<Verdict> verdict = Reserve(op);
  if (GetParam().refuses_repeated_versions_because) {
    EXPECT_THAT(verdict, FailsWith(Reason::kRequestInvalid));
    EXPECT_THAT(Get(op), FailsWith(Reason::kRecordNotFound)) << "nothing is stored";
    return;
  }
  const Uuid token = Expect<Reserved>(verdict).token;
  EXPECT_EQ(MustGet(op).fingerprints.size(), 2U);
  ASSERT_THAT(Complete(op, token), Succeeds());
  Expect<Replay>(Reserve(op));
  Advance(op.retention + limits::kClockStepMargin);
  EXPECT_EQ(SweepAll().removed, 1);
}

// Line 5.

TEST_P(ReserveTest, Line5ACompletedRecordIsReplayed) {
  const ReserveOp op = OpFor("done");
  const Reserved reserved = MustReserve(op);
  Advance(absl::Seconds(3));
  const absl::Time completed_at = Now();
  ASSERT_THAT(Complete(op, reserved.token, std::string("\0paid\xff", 6)), Succeeds());
  Advance(absl::Hours(1));
  const std::string before = Describe(Get(op));
  const Replay replay = Expect<Replay>(Reserve(op));
  EXPECT_EQ(replay.reply, ReplyWith(std::string("\0paid\xff", 6)));
  EXPECT_EQ(replay.completed_at, completed_at);
  EXPECT_EQ(replay.expires_at, reserved.expires_at);
  EXPECT_EQ(replay.attempt, 1u);
  EXPECT_EQ(Describe(Get(op)), before);
}

TEST_P(ReserveTest, Line5AlsoForTheRequestTokenOfItsGrant) {
  ReserveOp op = OpFor("done");
  op.request_token = Uuid::Random();
  op.recover = true;
  ASSERT_THAT(Complete(op, MustReserve(op).token), Succeeds());
  Expect<Replay>(Reserve(op));
}

TEST_P(ReserveTest, Line5UntilTheRecordExpires) {
  const ReserveOp op = OpFor("done");
  ASSERT_THAT(Complete(op, MustReserve(op).token), Succeeds());
  Advance(op.retention - kTick);
  Expect<Replay>(Reserve(op));
  Advance(kTick);
  MustReserve(op);
}

TEST_P(ReserveTest, Line5AnEmptyReplyIsAReply) {
  const ReserveOp op = OpFor("done");
  const CompleteOp complete{op.key, op.id, MustReserve(op).token, EncodeReply(v1::Reply())};
  ASSERT_THAT(store().Complete({&complete, 1}).at(0), Succeeds());
  EXPECT_EQ(Expect<Replay>(Reserve(op)).reply, complete.reply);
}

// Line 6.

TEST_P(ReserveTest, Line6ARepeatedRequestTokenGetsTheSameGrant) {
  ReserveOp op = OpFor("repeat");
  op.request_token = Uuid::Random();
  const Reserved first = MustReserve(op);
  Advance(absl::Seconds(10));
  const Reserved again = MustReserve(op);
  EXPECT_EQ(again.token, first.token);
  EXPECT_EQ(again.attempt, 1u);
  EXPECT_TRUE(again.repeated);
  EXPECT_FALSE(again.took_over);
  EXPECT_EQ(again.created_at, first.created_at);
  EXPECT_EQ(again.expires_at, first.expires_at);
  EXPECT_EQ(again.lease_remaining, kLease - absl::Seconds(10)) << "a live lease is not renewed";
}

TEST_P(ReserveTest, Line6TheLeaseIsRenewedOnceItIsOver) {
  ReserveOp op = OpFor("repeat");
  op.request_token = Uuid::Random();
  const Reserved first = MustReserve(op);
  Advance(kLease - kTick);
  EXPECT_EQ(MustReserve(op).lease_remaining, kTick);
  Advance(kTick);
  op.lease = absl::Seconds(7);
  const Reserved again = MustReserve(op);
  EXPECT_EQ(again.token, first.token);
  EXPECT_EQ(again.attempt, 1u);
  EXPECT_EQ(again.lease_remaining, absl::Seconds(7));
  EXPECT_EQ(MustGet(op).lease_expires_at, Now() + absl::Seconds(7));
  op.request_token = Uuid::Random();
  Expect<InFlight>(Reserve(op));
}

TEST_P(ReserveTest, Line6TheRenewedLeaseEndsWithTheRecord) {
  ReserveOp op = OpFor("repeat");
  op.request_token = Uuid::Random();
  op.retention = absl::Seconds(40);
  MustReserve(op);
  Advance(kLease);
  EXPECT_EQ(MustReserve(op).lease_remaining, absl::Seconds(10));
}

TEST_P(ReserveTest, Line6AlsoUnderRequireRecovery) {
  ReserveOp op = OpFor("repeat");
  op.request_token = Uuid::Random();
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  const Reserved first = MustReserve(op);
  Advance(kLease);
  EXPECT_EQ(MustReserve(op).token, first.token);
}

TEST_P(ReserveTest, Line6ARecoveryGrantIsRepeatedAsOne) {
  ReserveOp op = Unknown();
  op.recover = true;
  op.request_token = Uuid::Random();
  const Reserved second = MustReserve(op);
  const Reserved again = MustReserve(op);
  EXPECT_EQ(again.token, second.token);
  EXPECT_EQ(again.attempt, 2u);
  EXPECT_TRUE(again.recovering);
}

TEST_P(ReserveTest, Line6ARequestTokenBelongsToItsGrant) {
  ReserveOp first = OpFor("repeat");
  first.request_token = Uuid::Random();
  MustReserve(first);
  Advance(kLease);
  ReserveOp second = first;
  second.request_token = Uuid::Random();
  const Reserved taken = MustReserve(second);
  Expect<InFlight>(Reserve(first));
  EXPECT_EQ(MustReserve(second).token, taken.token);
}

TEST_P(ReserveTest, Line6AGrantWithoutRequestTokenForgetsTheOldOne) {
  ReserveOp first = OpFor("repeat");
  first.request_token = Uuid::Random();
  MustReserve(first);
  Advance(kLease);
  MustReserve(OpFor("repeat"));
  Expect<InFlight>(Reserve(first));
}

TEST_P(ReserveTest, Line6NoRequestTokenIsNeverARepeat) {
  const ReserveOp op = OpFor("repeat");
  MustReserve(op);
  Expect<InFlight>(Reserve(op));
}

// Line 7.

TEST_P(ReserveTest, Line7ALiveLeaseIsInFlight) {
  ReserveOp op = OpFor("busy");
  MustReserve(op);
  Advance(absl::Seconds(12));
  const std::string before = Describe(Get(op));
  op.recover = true;
  op.request_token = Uuid::Random();
  const InFlight in_flight = Expect<InFlight>(Reserve(op));
  EXPECT_EQ(in_flight.attempt, 1u);
  EXPECT_EQ(in_flight.lease_remaining, kLease - absl::Seconds(12));
  EXPECT_EQ(Describe(Get(op)), before);
}

TEST_P(ReserveTest, Line7TheLeaseIsLiveUntilItsLastMicrosecond) {
  const ReserveOp op = OpFor("busy");
  MustReserve(op);
  Advance(kLease - kTick);
  EXPECT_EQ(Expect<InFlight>(Reserve(op)).lease_remaining, kTick);
  Advance(kTick);
  MustReserve(op);
}

// Line 8.

TEST_P(ReserveTest, Line8ALapsedReservationIsTakenOver) {
  const ReserveOp op = Lapsed(LeaseExpiry::kTakeOver);
  const Reserved second = MustReserve(op);
  EXPECT_EQ(second.attempt, 2u);
  EXPECT_NE(second.token, first_.token);
  EXPECT_TRUE(second.took_over);
  EXPECT_FALSE(second.recovering);
  EXPECT_FALSE(second.after_expiry);
  EXPECT_FALSE(second.repeated);
  EXPECT_EQ(second.lease_remaining, kLease);
  EXPECT_EQ(second.created_at, first_.created_at);
  EXPECT_EQ(second.expires_at, first_.expires_at) << "only a recovery grant moves it";
  EXPECT_EQ(MustGet(op).attempt, 2u);
  EXPECT_THAT(Complete(op, first_.token), FailsWith(Reason::kReservationLost));
}

TEST_P(ReserveTest, Line8ThePolicyIsTheStoredOne) {
  ReserveOp op = Lapsed(LeaseExpiry::kTakeOver);
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  EXPECT_EQ(MustReserve(op).attempt, 2u);
  EXPECT_EQ(MustGet(op).on_lease_expiry, LeaseExpiry::kTakeOver);
  Advance(kLease);
  EXPECT_EQ(MustReserve(op).attempt, 3u);
}

TEST_P(ReserveTest, Line8RecoverMakesNoDifference) {
  ReserveOp op = Lapsed(LeaseExpiry::kTakeOver);
  op.recover = true;
  const Reserved second = MustReserve(op);
  EXPECT_FALSE(second.recovering);
  EXPECT_EQ(second.expires_at, first_.expires_at);
}

TEST_P(ReserveTest, Line8TheNewLeaseEndsWithTheRecord) {
  ReserveOp op = OpFor("short");
  op.retention = absl::Seconds(40);
  MustReserve(op);
  Advance(kLease);
  EXPECT_EQ(MustReserve(op).lease_remaining, absl::Seconds(10));
}

TEST_P(ReserveTest, Line8TheDescriptionOfTheFirstReservationStays) {
  ReserveOp op = OpFor("described");
  op.labels = {{"build", "1"}};
  MustReserve(op);
  Advance(kLease);
  ReserveOp later = op;
  later.labels = {{"build", "2"}};
  later.parent = op.key;
  later.fingerprints = {Print(1, 'a'), Print(2, 'b')};
  MustReserve(later);
  const Record record = MustGet(op);
  EXPECT_EQ(record.labels, op.labels);
  EXPECT_FALSE(record.parent.has_value());
  ExpectFingerprints(record, op);
}

TEST_P(ReserveTest, Line8TheParentOfTheFirstReservationStaysThroughEveryState) {
  ReserveOp op = OpFor("child");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  op.parent = RecordKey{"orders", "Grüße ' \\", "/orders.v1.Orders/Place", "!~\"%"};
  const Reserved first = MustReserve(op);
  ReserveOp later = op;
  later.parent = later.key;
  later.recover = true;
  ASSERT_THAT(Release(op, first.token), Succeeds());
  EXPECT_EQ(MustGet(op).parent, op.parent) << "RELEASED";
  ASSERT_THAT(Release(op, MustReserve(later).token, /*outcome_unknown=*/true), Succeeds());
  EXPECT_EQ(MustGet(op).parent, op.parent) << "UNKNOWN";
  const Reserved recovery = MustReserve(later);
  EXPECT_EQ(MustGet(op).parent, op.parent) << "RESERVED";
  ASSERT_THAT(Complete(op, recovery.token), Succeeds());
  EXPECT_EQ(MustGet(op).parent, op.parent) << "COMPLETED";
}

// Line 9.

TEST_P(ReserveTest, Line9WithoutRecoverALapsedReservationBecomesUnknown) {
  const ReserveOp op = Lapsed(LeaseExpiry::kRequireRecovery);
  EXPECT_EQ(MustGet(op).state, RecordState::kReserved) << "reading changes nothing";
  for (const bool marks : {true, false}) {
    const auto unknown = Expect<OutcomeUnknown>(Reserve(op));
    EXPECT_EQ(unknown.attempt, 1u);
    EXPECT_EQ(unknown.marked, marks);
    EXPECT_EQ(MustGet(op).state, RecordState::kUnknown);
  }
}

TEST_P(ReserveTest, Line9ThePolicyIsTheStoredOne) {
  ReserveOp op = Lapsed(LeaseExpiry::kRequireRecovery);
  op.on_lease_expiry = LeaseExpiry::kTakeOver;
  Expect<OutcomeUnknown>(Reserve(op));
}

TEST_P(ReserveTest, Line9WithRecoverALapsedReservationIsGranted) {
  ReserveOp op = Lapsed(LeaseExpiry::kRequireRecovery);
  op.recover = true;
  const Reserved second = MustReserve(op);
  EXPECT_EQ(second.attempt, 2u);
  EXPECT_TRUE(second.recovering);
  EXPECT_NE(second.token, first_.token);
  EXPECT_EQ(second.lease_remaining, kLease);
  EXPECT_EQ(second.created_at, first_.created_at);
  EXPECT_EQ(MustGet(op).state, RecordState::kReserved);
  EXPECT_THAT(Complete(op, first_.token), FailsWith(Reason::kReservationLost));
  EXPECT_THAT(Complete(op, second.token), Succeeds());
}

TEST_P(ReserveTest, Line9ARecoveryGrantHasTheCheckpointAndSoHasItsRepeat) {
  ReserveOp op = OpFor("checkpoint");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  ASSERT_THAT(Extend(op, MustReserve(op).token, kLease, "step 1"), Succeeds());
  Advance(kLease);
  op.recover = true;
  op.request_token = Uuid::Random();
  for (const bool repeat : {false, true}) {
    const Reserved second = MustReserve(op);
    EXPECT_EQ(second.repeated, repeat);
    EXPECT_TRUE(second.recovering);
    EXPECT_EQ(second.checkpoint, "step 1");
  }
}

TEST_P(ReserveTest, Line9AReleasedRecoveryGrantLeavesNoneBehind) {
  ReserveOp op = Unknown();
  op.recover = true;
  ASSERT_THAT(Release(op, MustReserve(op).token), Succeeds());
  const Reserved third = MustReserve(op);
  EXPECT_EQ(third.attempt, 3u);
  EXPECT_FALSE(third.recovering) << "its holder found out that nothing had happened";
}

TEST_P(ReserveTest, Line9WithRecoverUnknownIsGranted) {
  ReserveOp op = Unknown();
  op.recover = true;
  const Reserved second = MustReserve(op);
  EXPECT_EQ(second.attempt, 2u);
  EXPECT_TRUE(second.recovering);
  EXPECT_EQ(MustGet(op).state, RecordState::kReserved);
  EXPECT_THAT(Complete(op, first_.token), FailsWith(Reason::kReservationLost));
}

TEST_P(ReserveTest, Line9UnknownUnderTakeOverWaitsForRecoveryToo) {
  ReserveOp op = OpFor("unknown");
  ASSERT_THAT(Release(op, MustReserve(op).token, /*outcome_unknown=*/true), Succeeds());
  Expect<OutcomeUnknown>(Reserve(op));
  Advance(kLease);
  Expect<OutcomeUnknown>(Reserve(op));
  op.recover = true;
  EXPECT_TRUE(MustReserve(op).recovering);
}

TEST_P(ReserveTest, Line9TheRequestTokenOfTheLostGrantDoesNotReviveUnknown) {
  ReserveOp op = OpFor("unknown");
  op.request_token = Uuid::Random();
  ASSERT_THAT(Release(op, MustReserve(op).token, /*outcome_unknown=*/true), Succeeds());
  Expect<OutcomeUnknown>(Reserve(op));
  op.recover = true;
  EXPECT_EQ(MustReserve(op).attempt, 2u);
}

TEST_P(ReserveTest, Line9TheLeaseIsOverAtItsLastInstant) {
  ReserveOp op = OpFor("boundary");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  MustReserve(op);
  Advance(kLease - kTick);
  Expect<InFlight>(Reserve(op));
  Advance(kTick);
  Expect<OutcomeUnknown>(Reserve(op));
}

TEST_P(ReserveTest, Line9ALapsedReservationHasItsCauseAndTheEndOfItsLease) {
  const ReserveOp op = Lapsed(LeaseExpiry::kRequireRecovery);
  const absl::Time end = MustGet(op).lease_expires_at;
  Advance(absl::Seconds(7));
  // As RESERVED, then as UNKNOWN.
  for (int i = 0; i < 2; ++i) {
    const auto unknown = Expect<OutcomeUnknown>(Reserve(op));
    EXPECT_EQ(unknown.cause, OutcomeUnknown::Cause::kLeaseExpired);
    EXPECT_EQ(unknown.reason, "");
    EXPECT_EQ(unknown.since, end);
  }
}

TEST_P(ReserveTest, Line9SoDoesOneThatTheSweepFound) {
  const ReserveOp op = Lapsed(LeaseExpiry::kRequireRecovery);
  const absl::Time end = MustGet(op).lease_expires_at;
  ASSERT_EQ(SweepAll().marked_unknown, 1);
  const auto unknown = Expect<OutcomeUnknown>(Reserve(op));
  EXPECT_EQ(unknown.cause, OutcomeUnknown::Cause::kLeaseExpired);
  EXPECT_EQ(unknown.since, end);
}

TEST_P(ReserveTest, Line9AReleasedOneHasItsCauseAndTime) {
  for (const LeaseExpiry policy : {LeaseExpiry::kTakeOver, LeaseExpiry::kRequireRecovery}) {
    ReserveOp op = OpFor(policy == LeaseExpiry::kTakeOver ? "take-over" : "recovery");
    op.on_lease_expiry = policy;
    const Uuid token = MustReserve(op).token;
    Advance(absl::Seconds(3));
    const absl::Time released = Now();
    ASSERT_THAT(Release(op, token, /*outcome_unknown=*/true), Succeeds());
    Advance(kLease);
    const auto unknown = Expect<OutcomeUnknown>(Reserve(op));
    EXPECT_EQ(unknown.attempt, 1u);
    EXPECT_EQ(unknown.cause, OutcomeUnknown::Cause::kReleased);
    EXPECT_EQ(unknown.reason, "the reason");
    EXPECT_EQ(unknown.since, released);
  }
}

TEST_P(ReserveTest, Line9AReleaseWithoutAReasonIsNoLapsedLease) {
  const ReserveOp op = OpFor("unknown");
  const ReleaseOp release{op.key, op.id, MustReserve(op).token, "", /*outcome_unknown=*/true};
  ASSERT_THAT(store().Release({&release, 1}).at(0), Succeeds());
  const auto unknown = Expect<OutcomeUnknown>(Reserve(op));
  EXPECT_EQ(unknown.cause, OutcomeUnknown::Cause::kReleased);
  EXPECT_EQ(unknown.reason, kNoReleaseReason);
}

TEST_P(ReserveTest, Line9TheReasonOfAnEarlierReleaseIsNotThatOfALapsedLease) {
  ReserveOp op = OpFor("released-then-lapsed");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  const ReserveOp swept = [&] {
    ReserveOp other = OpFor("released-then-swept");
    other.on_lease_expiry = LeaseExpiry::kRequireRecovery;
    return other;
  }();
  for (const ReserveOp& each : {op, swept}) {
    ASSERT_THAT(Release(each, MustReserve(each).token), Succeeds());
    MustReserve(each);
  }
  Advance(kLease);
  EXPECT_EQ(Expect<OutcomeUnknown>(Reserve(op)).cause, OutcomeUnknown::Cause::kLeaseExpired);
  ASSERT_EQ(SweepAll().marked_unknown, 1);
  for (const ReserveOp& each : {op, swept}) {
    const auto unknown = Expect<OutcomeUnknown>(Reserve(each));
    EXPECT_EQ(unknown.attempt, 2u);
    EXPECT_EQ(unknown.cause, OutcomeUnknown::Cause::kLeaseExpired);
    EXPECT_EQ(unknown.reason, "");
  }
}

// The end of the attempt before a grant: reported with the grant, and again with its repeat.

TEST_P(ReserveTest, AFirstGrantFollowsNoAttempt) {
  ReserveOp op = OpFor("first");
  op.request_token = Uuid::Random();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(MustReserve(op).previous_attempt, PreviousAttempt::kNone);
  }
  Advance(op.retention);
  EXPECT_EQ(MustReserve(op).previous_attempt, PreviousAttempt::kNone) << "started afresh";
}

TEST_P(ReserveTest, AGrantShowsWhetherTheLastAttemptWasReleasedOrItsLeaseRanOut) {
  ReserveOp op = OpFor("again");
  Uuid held = MustReserve(op).token;
  const auto expect_next = [&](PreviousAttempt previous) {
    op.request_token = Uuid::Random();
    for (int i = 0; i < 2; ++i) {
      const Reserved reserved = MustReserve(op);
      EXPECT_EQ(reserved.previous_attempt, previous) << "attempt " << reserved.attempt;
      held = reserved.token;
    }
  };
  ASSERT_THAT(Release(op, held), Succeeds());
  expect_next(PreviousAttempt::kReleased);
  Advance(kLease);
  expect_next(PreviousAttempt::kLeaseExpired);
  // Released without a reason.
  const ReleaseOp release{op.key, op.id, held, "", /*outcome_unknown=*/false};
  ASSERT_THAT(store().Release({&release, 1}).at(0), Succeeds());
  expect_next(PreviousAttempt::kReleased);
}

TEST_P(ReserveTest, ARecoveryGrantFollowsAnUnknownOutcome) {
  for (ReserveOp op : {Unknown(), Lapsed(LeaseExpiry::kRequireRecovery)}) {
    op.recover = true;
    op.request_token = Uuid::Random();
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(MustReserve(op).previous_attempt, PreviousAttempt::kOutcomeUnknown);
    }
  }
}

// Lines 10 to 12.

TEST_P(ReserveTest, Line10TheRequestTokenOfTheReleasedGrantIsLost) {
  ReserveOp op = OpFor("released");
  op.request_token = Uuid::Random();
  ASSERT_THAT(Release(op, MustReserve(op).token), Succeeds());
  const std::string before = Describe(Get(op));
  const absl::StatusOr<Verdict> answer = Reserve(op);
  EXPECT_THAT(answer, FailsWith(Reason::kReservationLost));
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Describe(Get(op)), before);
}

TEST_P(ReserveTest, Line10OnlyThatOfTheLastGrant) {
  ReserveOp first = OpFor("released");
  first.request_token = Uuid::Random();
  ASSERT_THAT(Release(first, MustReserve(first).token), Succeeds());
  const ReserveOp second = OpFor("released");
  ASSERT_THAT(Release(second, MustReserve(second).token), Succeeds());
  EXPECT_EQ(MustReserve(first).attempt, 3u);
}

TEST_P(ReserveTest, Line10AlsoWhileThePauseRuns) {
  ReserveOp op = OpFor("released");
  op.request_token = Uuid::Random();
  ASSERT_THAT(Release(op, MustReserve(op).token, false, absl::Seconds(10)), Succeeds());
  EXPECT_THAT(Reserve(op), FailsWith(Reason::kReservationLost));
}

TEST_P(ReserveTest, Line11AReleasedRecordIsInFlightUntilItsPauseIsOver) {
  ReserveOp op = OpFor("paused");
  const Reserved first = MustReserve(op);
  ASSERT_THAT(Release(op, first.token, false, absl::Seconds(10)), Succeeds());
  const std::string before = Describe(Get(op));
  for (const absl::Duration left : {absl::Seconds(10), kTick}) {
    const auto in_flight = Expect<InFlight>(Reserve(op));
    EXPECT_EQ(in_flight.attempt, 1u);
    EXPECT_EQ(in_flight.lease_remaining, left);
    Advance(left > kTick ? left - kTick : kTick);
  }
  EXPECT_EQ(Describe(Get(op)), before) << "asking changes nothing";
  const Reserved second = MustReserve(op);
  EXPECT_EQ(second.attempt, 2u);
  EXPECT_EQ(second.previous_attempt, PreviousAttempt::kReleased);
  EXPECT_FALSE(second.took_over);
  EXPECT_EQ(second.lease_remaining, kLease);
}

TEST_P(ReserveTest, Line11AnotherRequestIsAMismatchMeanwhile) {
  ReserveOp op = OpFor("paused");
  ASSERT_THAT(Release(op, MustReserve(op).token, false, absl::Seconds(10)), Succeeds());
  op.fingerprints = {Print(1, 'b')};
  EXPECT_EQ(Expect<Mismatch>(Reserve(op)).attempt, 1u);
}

TEST_P(ReserveTest, Line11RecoverMakesNoDifference) {
  ReserveOp op = OpFor("paused");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  ASSERT_THAT(Release(op, MustReserve(op).token, false, absl::Seconds(10)), Succeeds());
  op.recover = true;
  Expect<InFlight>(Reserve(op));
  Advance(absl::Seconds(10));
  EXPECT_FALSE(MustReserve(op).recovering);
}

TEST_P(ReserveTest, Line12AReleasedRecordIsReservedAgain) {
  ReserveOp op = OpFor("released");
  op.request_token = Uuid::Random();
  const Reserved first = MustReserve(op);
  ASSERT_THAT(Release(op, first.token), Succeeds());
  Advance(absl::Seconds(1));
  op.request_token = Uuid::Random();
  const Reserved second = MustReserve(op);
  EXPECT_EQ(second.attempt, 2u);
  EXPECT_NE(second.token, first.token);
  EXPECT_FALSE(second.took_over);
  EXPECT_FALSE(second.recovering);
  EXPECT_EQ(second.lease_remaining, kLease);
  EXPECT_EQ(second.expires_at, first.expires_at);
  EXPECT_EQ(MustGet(op).state, RecordState::kReserved);
  EXPECT_THAT(Complete(op, first.token), FailsWith(Reason::kReservationLost));
}

TEST_P(ReserveTest, Line12AlsoUnderRequireRecovery) {
  ReserveOp op = OpFor("released");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  ASSERT_THAT(Release(op, MustReserve(op).token), Succeeds());
  Advance(kLease);
  EXPECT_FALSE(MustReserve(op).recovering);
}

// Isolation.

TEST_P(ReserveTest, ARecordIsSeenOnlyUnderAllFourParts) {
  const ReserveOp op = OpFor("mine");
  ASSERT_THAT(Complete(op, MustReserve(op).token), Succeeds());
  for (std::string RecordKey::*part :
       {&RecordKey::name_space, &RecordKey::scope, &RecordKey::operation, &RecordKey::key}) {
    ReserveOp other = op;
    other.key.*part += "x";
    other.id = RecordIdFor(other.key);
    other.fingerprints = {Print(1, 'b')};
    EXPECT_THAT(Get(other), FailsWith(Reason::kRecordNotFound));
    EXPECT_EQ(MustReserve(other).attempt, 1u);
  }
  Expect<Replay>(Reserve(op));
}

TEST_P(ReserveTest, PartsThatJoinToTheSameTextAreDifferentRecords) {
  ReserveOp left = OpFor("key");
  left.key.scope = "ab";
  left.key.operation = "c";
  left.id = RecordIdFor(left.key);
  ReserveOp right = left;
  right.key.scope = "a";
  right.key.operation = "bc";
  right.id = RecordIdFor(right.key);
  MustReserve(left);
  EXPECT_EQ(MustReserve(right).attempt, 1u);
}

TEST_P(ReserveTest, EveryGrantHasATokenOfItsOwn) {
  std::set<Uuid> tokens;
  const ReserveOp op = OpFor("one");
  for (int attempt = 1; attempt <= 20; ++attempt) {
    const Reserved reserved = MustReserve(op);
    EXPECT_EQ(reserved.attempt, static_cast<std::uint32_t>(attempt));
    EXPECT_TRUE(tokens.insert(reserved.token).second);
    ASSERT_THAT(Release(op, reserved.token), Succeeds());
    EXPECT_TRUE(tokens.insert(MustReserve(OpFor(absl::StrCat("other-", attempt))).token).second);
  }
}

}  // namespace
}  // namespace idempotency::internal
