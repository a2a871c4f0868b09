// A reply that is kept for a shorter time than its record, and keys that are refused after theirs.
// Every test sends its requests before and after the sweep: it must make no difference.
#include <pthread.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "server/store/limits.h"
#include "tests/conformance/store_fixture.h"

namespace idempotency::internal {
namespace {

constexpr absl::Duration kTick = absl::Microseconds(1);

class ReplyRetentionTest : public StoreTest {
 protected:
  // The remaining status of ReplyWith("paid").
  static EncodedReply StatusOnly() { return *WithoutContent(ReplyWith("paid")); }

  static ReserveOp ShortOp(const std::string& key) {
    ReserveOp op = OpFor(key);
    op.reply_retention = absl::Hours(1);
    return op;
  }
};
IDEMPOTENCY_FOR_EVERY_STORE(ReplyRetentionTest);

TEST_P(ReplyRetentionTest, TheContentGoesAtItsInstantWhetherSweptOrNot) {
  const ReserveOp op = ShortOp("short");
  const Reserved grant = MustReserve(op);
  ASSERT_THAT(Complete(op, grant.token), Succeeds());
  Advance(absl::Hours(1) - kTick);
  EXPECT_EQ(SweepAll().replies_dropped, 0);
  EXPECT_EQ(Expect<Replay>(Reserve(op)).reply, ReplyWith("paid"));
  EXPECT_EQ(MustGet(op).reply, ReplyWith("paid"));
  Advance(kTick);
  for (int i = 0; i < 2; ++i) {
    const Replay replay = Expect<Replay>(Reserve(op));
    EXPECT_EQ(replay.reply, StatusOnly()) << i;
    EXPECT_EQ(DecodeReply(replay.reply)->content(), v1::REPLY_CONTENT_STATUS_ONLY);
    EXPECT_EQ(MustGet(op).reply, StatusOnly()) << i;
    EXPECT_EQ(MustGet(op).state, RecordState::kCompleted) << i;
    EXPECT_EQ(SweepAll().replies_dropped, i == 0 ? 1 : 0) << "once";
  }
}

TEST_P(ReplyRetentionTest, TheRecordStillDecides) {
  const ReserveOp op = ShortOp("short");
  const Reserved grant = MustReserve(op);
  ASSERT_THAT(Complete(op, grant.token), Succeeds());
  Advance(absl::Hours(2));
  for (int i = 0; i < 2; ++i) {
    ReserveOp other = op;
    other.fingerprints = {Print(1, 'b')};
    Expect<Mismatch>(Reserve(other));
    Expect<Replay>(Reserve(op));
    // The same reply again is recognised by its digest.
    const auto repeated = Complete(op, grant.token);
    ASSERT_THAT(repeated, Succeeds());
    EXPECT_TRUE(repeated->repeated);
    EXPECT_THAT(Complete(op, grant.token, "another"), FailsWith(Reason::kReservationLost));
    SweepAll();
  }
  Advance(op.retention - absl::Hours(2) + limits::kClockStepMargin);
  EXPECT_EQ(SweepAll().removed, 1);
  EXPECT_EQ(MustReserve(op).attempt, 1u);
}

TEST_P(ReplyRetentionTest, AnErrorKeepsItsCodeAndMessage) {
  const ReserveOp op = ShortOp("error");
  v1::Reply reply;
  reply.set_code(5);
  reply.set_message("no such account");
  reply.set_details("the details");
  reply.set_body("");
  const CompleteOp completion{op.key, op.id, MustReserve(op).token, EncodeReply(reply)};
  ASSERT_THAT(store().Complete({&completion, 1}).at(0), Succeeds());
  Advance(absl::Hours(1));
  for (int i = 0; i < 2; ++i) {
    const auto rest = DecodeReply(Expect<Replay>(Reserve(op)).reply);
    ASSERT_THAT(rest, Succeeds());
    EXPECT_EQ(rest->code(), 5);
    EXPECT_EQ(rest->message(), "no such account");
    EXPECT_EQ(rest->details(), "");
    EXPECT_FALSE(rest->has_body());
    SweepAll();
  }
}

TEST_P(ReplyRetentionTest, AReplyThatComesLateHasNoContentEither) {
  const ReserveOp op = ShortOp("late");
  const Reserved grant = MustReserve(op);
  Advance(absl::Hours(3));
  ASSERT_THAT(Complete(op, grant.token), Succeeds());
  EXPECT_EQ(Expect<Replay>(Reserve(op)).reply, StatusOnly());
  EXPECT_EQ(SweepAll().replies_dropped, 1);
  EXPECT_EQ(Expect<Replay>(Reserve(op)).reply, StatusOnly());
}

TEST_P(ReplyRetentionTest, TheFirstReservationSetsTheTime) {
  ReserveOp op = ShortOp("short");
  ASSERT_THAT(Release(op, MustReserve(op).token), Succeeds());
  op.reply_retention = absl::Hours(20);
  ASSERT_THAT(Complete(op, MustReserve(op).token), Succeeds());
  Advance(absl::Hours(1));
  EXPECT_EQ(Expect<Replay>(Reserve(op)).reply, StatusOnly());
}

TEST_P(ReplyRetentionTest, ManyLargeRepliesAreDroppedInOneStep) {
  std::vector<ReserveOp> ops;
  const std::string body(2 * 1024 * 1024, 'b');
  for (int i = 0; i < 5; ++i) {
    ops.push_back(ShortOp(absl::StrCat("large-", i)));
    ASSERT_THAT(Complete(ops.back(), MustReserve(ops.back()).token, body), Succeeds());
  }
  Advance(absl::Hours(1));
  EXPECT_EQ(SweepAll().replies_dropped, 5);
  for (const ReserveOp& op : ops) EXPECT_EQ(MustGet(op).reply, StatusOnly());
}

class TombstoneTest : public StoreTest {
 protected:
  static ReserveOp OpWithTombstone(const std::string& key) {
    ReserveOp op = OpFor(key);
    op.retention = absl::Hours(1);
    op.window = absl::Hours(1);
    op.tombstone = absl::Hours(48);
    op.labels = {{"build", "42"}};
    op.parent = op.key;
    op.request_token = Uuid::Random();
    return op;
  }
};
IDEMPOTENCY_FOR_EVERY_STORE(TombstoneTest);

TEST_P(TombstoneTest, TheKeyOfAForgottenRecordIsRefusedUntilTheTombstoneIsOver) {
  const ReserveOp op = OpWithTombstone("charge");
  const Reserved grant = MustReserve(op);
  ASSERT_THAT(Extend(op, grant.token, absl::Seconds(30), "step"), Succeeds());
  ASSERT_THAT(Complete(op, grant.token), Succeeds());
  Advance(absl::Hours(1) - kTick);
  Expect<Replay>(Reserve(op));
  Advance(kTick);
  for (int i = 0; i < 2; ++i) {
    Expect<Expired>(Reserve(op));
    ReserveOp other = op;
    other.fingerprints = {Print(1, 'b')};
    other.tombstone = absl::ZeroDuration();
    Expect<Expired>(Reserve(other));
    EXPECT_THAT(Get(op), FailsWith(Reason::kRecordNotFound));
    EXPECT_THAT(Complete(op, grant.token), FailsWith(Reason::kReservationLost));
    EXPECT_THAT(Release(op, grant.token), FailsWith(Reason::kReservationLost));
    EXPECT_THAT(Extend(op, grant.token, absl::Seconds(1)), FailsWith(Reason::kReservationLost));
    if (i == 0) Advance(limits::kClockStepMargin);
    const SweepProgress swept = SweepAll();
    EXPECT_EQ(swept.entombed, i == 0 ? 1 : 0) << "once";
    EXPECT_EQ(swept.removed, 0);
  }
  Advance(absl::Hours(48) - limits::kClockStepMargin - kTick);
  Expect<Expired>(Reserve(op));
  Advance(kTick);
  const Reserved afresh = MustReserve(op);
  EXPECT_EQ(afresh.attempt, 1u);
  EXPECT_TRUE(afresh.after_expiry);
  EXPECT_EQ(afresh.checkpoint, "");
  EXPECT_THAT(Complete(op, afresh.token), Succeeds());
}

TEST_P(TombstoneTest, TheSweepRemovesItOnceItIsOver) {
  const ReserveOp swept_before = OpWithTombstone("before");
  MustReserve(swept_before);
  const ReserveOp timed = OpWithTombstone(KeyMadeAt(Now()));
  MustReserve(timed);
  Advance(absl::Hours(1) + limits::kClockStepMargin - kTick);
  EXPECT_EQ(SweepAll().entombed, 0);
  Advance(kTick);
  EXPECT_EQ(SweepAll().entombed, 2);
  Advance(absl::Hours(48) - kTick);
  EXPECT_EQ(SweepAll().removed, 0);
  Advance(kTick);
  EXPECT_EQ(SweepAll().removed, 2);
  EXPECT_FALSE(MustReserve(swept_before).after_expiry) << "no row is left";
}

TEST_P(TombstoneTest, OneThatWasNeverReducedIsRemovedToo) {
  const ReserveOp op = OpWithTombstone("charge");
  ASSERT_THAT(Complete(op, MustReserve(op).token), Succeeds());
  Advance(absl::Hours(49) + limits::kClockStepMargin);
  const SweepProgress swept = SweepAll();
  EXPECT_EQ(swept.removed, 1);
  EXPECT_EQ(swept.entombed, 0);
}

TEST_P(TombstoneTest, AnotherKeyUnderItsIdIsStillACollision) {
  const ReserveOp op = OpWithTombstone("charge");
  MustReserve(op);
  Advance(absl::Hours(1) + limits::kClockStepMargin);
  ReserveOp collided = op;
  collided.key.scope = "elsewhere";
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Reserve(collided), FailsWith(Reason::kRecordIdCollision));
    SweepAll();
  }
}

TEST_P(TombstoneTest, AReleasedRecordHasItToo) {
  const ReserveOp op = OpWithTombstone("released");
  ASSERT_THAT(Release(op, MustReserve(op).token), Succeeds());
  Advance(absl::Hours(1));
  Expect<Expired>(Reserve(op));
}

// A namespace's window was made longer after the record was written: without the tombstone its key
// would be inside the window again, and run a second time.
TEST_P(TombstoneTest, ATimedKeyIsRefusedInsideALongerWindowToo) {
  ReserveOp op = OpWithTombstone(KeyMadeAt(Now()));
  const absl::Time made_at = *KeyTime(op.key);
  ASSERT_THAT(Complete(op, MustReserve(op).token), Succeeds());
  op.window = absl::Hours(100);
  Advance(absl::Hours(2));
  for (int i = 0; i < 2; ++i) {
    Expect<Expired>(Reserve(op));
    SweepAll();
  }
  Advance(absl::Hours(48));
  MustReserve(op);
  // With the window under which it was written it stays refused for ever.
  ReserveOp narrow = OpWithTombstone(KeyMadeAt(made_at));
  Expect<Expired>(Reserve(narrow));
}

TEST_P(TombstoneTest, ItMovesAlongWithARecoveredRecord) {
  ReserveOp op = OpWithTombstone("recovered");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  ASSERT_THAT(Release(op, MustReserve(op).token, /*outcome_unknown=*/true), Succeeds());
  // Far past its end and its tombstone, but UNKNOWN is never forgotten.
  Advance(absl::Hours(200));
  EXPECT_EQ(SweepAll().removed, 0);
  op.recover = true;
  op.request_token = Uuid::Random();
  const Reserved second = MustReserve(op);
  EXPECT_TRUE(second.recovering);
  EXPECT_EQ(MustGet(op).tombstone_until, Now() + absl::Hours(49));
  ASSERT_THAT(Complete(op, second.token), Succeeds());
  Advance(absl::Hours(1));
  Expect<Expired>(Reserve(op));
  Advance(absl::Hours(48));
  EXPECT_EQ(MustReserve(op).attempt, 1u);
}

TEST_P(TombstoneTest, ItIsThereAfterARestart) {
  if (GetParam().forgets_because) GTEST_SKIP() << *GetParam().forgets_because;
  const ReserveOp op = OpWithTombstone("charge");
  ReserveOp kept = OpFor("kept");
  kept.reply_retention = absl::Minutes(30);
  MustReserve(op);
  const Reserved grant = MustReserve(kept);
  ASSERT_THAT(Complete(kept, grant.token), Succeeds());
  Advance(absl::Hours(1) + limits::kClockStepMargin);
  SweepAll();
  ASSERT_THAT(harness().Reopen(), Succeeds());
  Expect<Expired>(Reserve(op));
  EXPECT_EQ(Expect<Replay>(Reserve(kept)).reply, *WithoutContent(ReplyWith("paid")));
  EXPECT_TRUE(Complete(kept, grant.token)->repeated);
}

// Sweeps and calls at once, at the exact instant: in either order the answers are the same.
TEST_P(TombstoneTest, SweepsThatRaceWithCallsChangeNoAnswer) {
  constexpr int kRecords = 200;
  std::vector<ReserveOp> entombed;
  std::vector<ReserveOp> dropped;
  std::vector<ReserveOp> afresh;
  for (int i = 0; i < kRecords; ++i) {
    entombed.push_back(OpWithTombstone(absl::StrCat("entombed-", i)));
    dropped.push_back(OpFor(absl::StrCat("dropped-", i)));
    dropped.back().reply_retention = absl::Hours(1);
    afresh.push_back(OpFor(absl::StrCat("afresh-", i)));
    afresh.back().retention = absl::Hours(1);
    MustReserve(entombed.back());
    ASSERT_THAT(Complete(dropped.back(), MustReserve(dropped.back()).token), Succeeds());
    MustReserve(afresh.back());
  }
  Advance(absl::Hours(1) + limits::kClockStepMargin);
  std::atomic<bool> done{false};
  std::thread sweeper([&] {
    pthread_setname_np(pthread_self(), "sweeper");
    do {
      SweepAll(/*limit=*/7);
    } while (!done);
  });
  int granted = 0;
  for (int i = 0; i < kRecords; ++i) {
    const std::vector<ReserveOp> batch = {entombed[i], dropped[i], afresh[i]};
    const auto answers = store().Reserve(batch);
    Expect<Expired>(answers[0]);
    EXPECT_EQ(Expect<Replay>(answers[1]).reply, *WithoutContent(ReplyWith("paid")));
    const Reserved reserved = Expect<Reserved>(answers[2]);
    if (Complete(afresh[i], reserved.token).ok()) ++granted;
  }
  done = true;
  sweeper.join();
  EXPECT_EQ(granted, kRecords) << "a revived record was swept";
}

}  // namespace
}  // namespace idempotency::internal
