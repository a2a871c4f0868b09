// Sealing switched on, and keys that follow each other, in front of every store that does not seal
// by itself: a true retry gets its reply, and nothing runs a second time.
#include <string>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/reply.h"
#include "tests/conformance/rotation_fixture.h"

namespace idempotency::internal {
namespace {

constexpr absl::Duration kLease = absl::Seconds(30);

class RotationTest : public RotationFixture {
 protected:
  // A record that one process stored under `before` is found by another one under `after`.
  void ExpectFoundAgain(Store& before, Store& after);
};
INSTANTIATE_TEST_SUITE_P(Stores, RotationTest, ::testing::ValuesIn(PlainStores()), StoreName);

void RotationTest::ExpectFoundAgain(Store& before, Store& after) {
  const Uuid done = Expect<Reserved>(Reserve(before, ReserveNamed("done"))).token;
  ASSERT_THAT(Complete(before, "done", done), Succeeds());
  const Uuid running = Expect<Reserved>(Reserve(before, ReserveNamed("running"))).token;
  const Uuid stopped = Expect<Reserved>(Reserve(before, ReserveNamed("stopped"))).token;
  ExtendOp extend = ExtendNamed("stopped", stopped);
  extend.checkpoint = "step 1";
  ASSERT_THAT(before.Extend({&extend, 1}).at(0), Succeeds());

  // The retry of a completed operation, and that of its completion.
  const EncodedReply paid = ReplyWith("paid");
  EXPECT_EQ(Expect<Replay>(Reserve(after, ReserveNamed("done"))).reply, paid);
  const absl::StatusOr<Record> record = Get(after, "done");
  ASSERT_THAT(record, Succeeds());
  EXPECT_EQ(record->reply, paid);
  EXPECT_EQ(after.MatchRequest(*record, ReserveNamed("done")), FingerprintMatch::kSame);
  EXPECT_EQ(after.MatchRequest(*record, ReserveNamed("done", 'b')), FingerprintMatch::kDifferent);
  const absl::StatusOr<Completion> again = Complete(after, "done", done);
  ASSERT_THAT(again, Succeeds());
  EXPECT_TRUE(again->repeated);
  // Another reply, another request.
  EXPECT_THAT(Complete(after, "done", done, "other"), FailsWith(Reason::kReservationLost));
  Expect<Mismatch>(Reserve(after, ReserveNamed("done", 'b')));
  EXPECT_EQ(Expect<Replay>(Reserve(after, ReserveNamed("done"))).reply, paid);
  // An attempt under way: nobody else runs, and it completes.
  Expect<InFlight>(Reserve(after, ReserveNamed("running")));
  Expect<Mismatch>(Reserve(after, ReserveNamed("running", 'b')));
  ASSERT_THAT(Complete(after, "running", running), Succeeds());
  EXPECT_EQ(Expect<Replay>(Reserve(after, ReserveNamed("running"))).reply, paid);
  // The next attempt.
  Advance(kLease);
  const Reserved next = Expect<Reserved>(Reserve(after, ReserveNamed("stopped")));
  EXPECT_EQ(next.attempt, 2U);
  EXPECT_EQ(next.checkpoint, "step 1");
}

TEST_P(RotationTest, WhatAnOlderKeySealedIsFoundAgain) {
  ExpectFoundAgain(*StoreWith({1}), *StoreWith({1, 2, 3}));
}

// A replica whose clock is ahead, or that read the file first.
TEST_P(RotationTest, WhatANewerKeySealedIsFoundByThoseThatHaveIt) {
  const std::string first = TestKey(1, start_);
  const std::string ring = absl::StrCat(first, TestKey(2, start_ + absl::Hours(1)));
  ExpectFoundAgain(*StoreWith({1, 2}), *StoreOf(ring, /*accept_unsealed=*/false));
}

TEST_P(RotationTest, WhatWasStoredUnsealedIsFoundAgain) {
  ExpectFoundAgain(store(), *StoreWith({1}, /*accept_unsealed=*/true));
}

// Every replica gets the key ring, one after the other, before its first key seals.
TEST_P(RotationTest, BeforeTheFirstKeySealsEverythingIsFoundByAll) {
  const auto waiting = StoreOf(TestKey(1, start_ + absl::Hours(1)), /*accept_unsealed=*/true);
  ExpectFoundAgain(*waiting, store());
}
TEST_P(RotationTest, AReplicaThatDoesNotSealYetFindsWhatIsSealed) {
  const auto waiting = StoreOf(TestKey(1, start_ + absl::Hours(1)), /*accept_unsealed=*/true);
  ExpectFoundAgain(*StoreWith({1}, /*accept_unsealed=*/true), *waiting);
}

TEST_P(RotationTest, ACompletionIsRecognisedAfterItsContentWasDropped) {
  ReserveOp op = ReserveNamed("short");
  op.reply_retention = absl::Minutes(1);
  const auto before = StoreWith({1});
  const Uuid token = Expect<Reserved>(Reserve(*before, op)).token;
  ASSERT_THAT(Complete(*before, "short", token), Succeeds());
  const auto after = StoreWith({1, 2});
  for (const bool swept : {false, true}) {
    if (swept) {
      Advance(absl::Minutes(1));
      EXPECT_EQ(SweepAll().replies_dropped, 1);
      const Replay replay = Expect<Replay>(Reserve(*after, op));
      EXPECT_EQ(DecodeReply(replay.reply)->content(), v1::REPLY_CONTENT_STATUS_ONLY);
    }
    EXPECT_THAT(Complete(*after, "short", token), Succeeds());
    EXPECT_THAT(Complete(*after, "short", token, "other"), FailsWith(Reason::kReservationLost));
  }
}

TEST_P(RotationTest, WhatAnAdministratorSettledIsFoundAgain) {
  const auto resolution = [](const std::string& body) {
    ResolveOp op;
    op.key = KeyNamed("stuck");
    op.id = RecordIdFor(op.key);
    op.expected_attempt = 1;
    op.reply = ReplyWith(body);
    op.note = {"alice", "ticket 42"};
    return op;
  };
  const auto before = StoreWith({1});
  const Uuid stuck = Expect<Reserved>(Reserve(*before, ReserveNamed("stuck"))).token;
  Advance(kLease);
  EXPECT_FALSE(before->Resolve(resolution("paid"))->repeated);
  for (const auto& after : {StoreWith({1}), StoreWith({1, 2}), StoreWith({1}, true)}) {
    EXPECT_EQ(Expect<Replay>(Reserve(*after, ReserveNamed("stuck"))).reply, ReplyWith("paid"));
    EXPECT_TRUE(after->Resolve(resolution("paid"))->repeated);
    EXPECT_THAT(after->Resolve(resolution("other")), FailsWith(Reason::kRecordChanged));
    EXPECT_THAT(Complete(*after, "stuck", stuck), FailsWith(Reason::kReservationLost));
    EXPECT_EQ(Get(*after, "stuck")->reply, ReplyWith("paid"));
  }
  EXPECT_THAT(Get(*StoreWith({2}), "stuck"), FailsWith(Reason::kRecordDamaged));
}

TEST_P(RotationTest, WithoutItsKeyARecordIsDamagedAndNeverRun) {
  ReserveOp op = ReserveNamed("done");
  const auto before = StoreWith({1});
  const Uuid token = Expect<Reserved>(Reserve(*before, op)).token;
  const Uuid running = Expect<Reserved>(Reserve(*before, ReserveNamed("running"))).token;
  ASSERT_THAT(Complete(*before, "done", token), Succeeds());
  const auto after = StoreWith({2, 3});
  Advance(kLease);
  EXPECT_THAT(Reserve(*after, op), FailsWith(Reason::kRecordDamaged));
  EXPECT_THAT(Reserve(*after, ReserveNamed("done", 'b')), FailsWith(Reason::kRecordDamaged));
  EXPECT_THAT(Reserve(*after, ReserveNamed("running")), FailsWith(Reason::kRecordDamaged));
  EXPECT_THAT(Get(*after, "done"), FailsWith(Reason::kRecordDamaged));
  // The attempt that holds it may still complete.
  EXPECT_THAT(Complete(*after, "running", running), Succeeds());
  // With its key it is as before.
  EXPECT_EQ(Expect<Replay>(Reserve(*StoreWith({1, 2, 3}), op)).reply, ReplyWith("paid"));
}

TEST_P(RotationTest, WhatIsNotSealedIsDamagedOnceThatIsNotAccepted) {
  const Uuid done = Expect<Reserved>(Reserve(store(), ReserveNamed("done"))).token;
  Expect<Reserved>(Reserve(store(), ReserveNamed("running")));
  ASSERT_THAT(Complete(store(), "done", done), Succeeds());
  Advance(kLease);
  const auto strict = StoreWith({1});
  EXPECT_THAT(Reserve(*strict, ReserveNamed("done")), FailsWith(Reason::kRecordDamaged));
  EXPECT_THAT(Reserve(*strict, ReserveNamed("running")), FailsWith(Reason::kRecordDamaged));
  EXPECT_THAT(Get(*strict, "done"), FailsWith(Reason::kRecordDamaged));
}

TEST_P(RotationTest, VersionsThatTheRecordLacksStayUnknown) {
  const auto sealed = StoreWith({1, 2});
  Expect<Reserved>(Reserve(*sealed, ReserveNamed("done")));
  ReserveOp newer = ReserveNamed("done");
  newer.fingerprints = {Print(2, 'a')};
  EXPECT_THAT(Reserve(*sealed, newer), FailsWith(Reason::kFingerprintUnknown));
}

TEST_P(RotationTest, WhatStartsAfreshHasOnlyTheKeyThatSeals) {
  ReserveOp op = ReserveNamed("short");
  op.retention = absl::Minutes(1);
  Expect<Reserved>(Reserve(*StoreWith({1}), op));
  Advance(absl::Minutes(1));
  const auto after = StoreWith({1, 2}, /*accept_unsealed=*/true);
  EXPECT_TRUE(Expect<Reserved>(Reserve(*after, op)).after_expiry);
  const absl::StatusOr<Record> record = Get(store(), "short");
  ASSERT_THAT(record, Succeeds());
  ASSERT_EQ(record->fingerprints.size(), 1U);
  EXPECT_EQ(record->fingerprints[0].key_id, 2U);
}

}  // namespace
}  // namespace idempotency::internal
