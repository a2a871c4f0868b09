#include "server/sealing/sealed_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/testing/manual_clock.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "server/sealing/sealed_checkpoint.h"
#include "server/store/lost_reservation.h"
#include "server/store/memory/memory_store.h"
#include "server/store/reply_envelope.h"
#include "server/store/testing/operations.h"
#include "server/testing/holding_store.h"
#include "server/testing/store_decorator.h"
#include "server/testing/test_key_ring.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;

// Counts the calls that reach the store, and keeps the last operations.
class WatchedStore final : public StoreDecorator<WatchedStore> {
 public:
  using StoreDecorator::StoreDecorator;

  template <typename Op, typename Answer>
  std::vector<Answer> Around(OperationKind kind, StoreMethod<Op, Answer> method,
                             absl::Span<const Op> ops) {
    ++calls[static_cast<std::size_t>(kind)];
    Keep(ops);
    return (store().*method)(ops);
  }
  int Calls(OperationKind kind) const { return calls[static_cast<std::size_t>(kind)]; }

  std::atomic<int> calls[kOperationKinds] = {};
  std::vector<ReserveOp> reserved;
  std::vector<CompleteOp> completed;
  std::vector<ExtendOp> extended;

 private:
  void Keep(absl::Span<const ReserveOp> ops) { reserved.assign(ops.begin(), ops.end()); }
  void Keep(absl::Span<const CompleteOp> ops) { completed.assign(ops.begin(), ops.end()); }
  void Keep(absl::Span<const ExtendOp> ops) { extended.assign(ops.begin(), ops.end()); }
  template <typename Op>
  void Keep(absl::Span<const Op>) {}
};

class SealedStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<SealedStore> Open(bool accept_unsealed = false) {
    SealedStoreOptions options;
    options.accept_unsealed = accept_unsealed;
    options.clock = &clock_;
    return std::make_unique<SealedStore>(watched_, rings_, options);
  }
  void UseRing(const std::string& text) { rings_->Replace(TestKeyRing(text)); }

  static absl::StatusOr<Verdict> Reserve(Store& store, const ReserveOp& op) {
    return store.Reserve({&op, 1}).at(0);
  }
  static Uuid TokenOf(const absl::StatusOr<Verdict>& verdict) {
    EXPECT_NE(As<Reserved>(verdict), nullptr) << verdict.status();
    return As<Reserved>(verdict) == nullptr ? Uuid() : As<Reserved>(verdict)->token;
  }
  static absl::StatusOr<Completion> Complete(Store& store, const CompleteOp& op) {
    return store.Complete({&op, 1}).at(0);
  }

  ManualClock clock_;
  const absl::Time start_ = clock_.Now();
  MemoryStore memory_{clock_};
  WatchedStore watched_{memory_};
  const std::shared_ptr<KeyRingSource> rings_ =
      std::make_shared<KeyRingSource>(TestKeyRing(TestKey(1, start_)));
};

TEST_F(SealedStoreTest, UsuallyEveryCallIsOneCallOfTheStore) {
  const auto store = Open(/*accept_unsealed=*/true);
  const Uuid token = TokenOf(Reserve(*store, ReserveNamed("order-1")));
  const CompleteOp complete = CompleteNamed("order-1", token);
  ASSERT_TRUE(Complete(*store, complete).ok());
  ASSERT_TRUE(Complete(*store, complete)->repeated);
  ASSERT_NE(As<Replay>(Reserve(*store, ReserveNamed("order-1"))), nullptr);
  ASSERT_NE(As<Mismatch>(Reserve(*store, ReserveNamed("order-1", 'b'))), nullptr);
  EXPECT_EQ(watched_.Calls(OperationKind::kReserve), 3);
  EXPECT_EQ(watched_.Calls(OperationKind::kComplete), 2);
  EXPECT_EQ(watched_.Calls(OperationKind::kGet), 0);
}

TEST_F(SealedStoreTest, TheStoreGetsNoFingerprintWithoutAKeyToKeep) {
  const auto store = Open(/*accept_unsealed=*/true);
  UseRing(absl::StrCat(TestKey(1, start_), TestKey(2, start_)));
  const ReserveOp op = ReserveNamed("order-1");
  TokenOf(Reserve(*store, op));
  ASSERT_EQ(watched_.reserved.size(), 1U);
  for (const Fingerprint& kept : watched_.reserved[0].fingerprints) {
    EXPECT_EQ(kept.key_id, 2U);
    EXPECT_NE(kept.digest, op.fingerprints[0].digest);
  }
  EXPECT_TRUE(watched_.reserved[0].compared_fingerprints.empty());
  // Whatever is compared, what is kept has the key.
  UseRing(absl::StrCat(TestKey(1, start_), TestKey(2, start_), TestKey(3, start_)));
  Reserve(*store, op).IgnoreError();
  EXPECT_EQ(watched_.reserved[0].compared_fingerprints.size(), 3U);
  for (const Fingerprint& kept : watched_.reserved[0].fingerprints) EXPECT_EQ(kept.key_id, 3U);
}

TEST_F(SealedStoreTest, FingerprintsOfNamespacesAndRecordsDiffer) {
  const auto store = Open();
  std::vector<ReserveOp> ops = {ReserveNamed("order-1"), ReserveNamed("order-2"),
                                ReserveNamed("order-1")};
  ops[2].key.name_space = "other";
  ops[2].id = RecordIdFor(ops[2].key);
  store->Reserve(ops);
  ASSERT_EQ(watched_.reserved.size(), 3U);
  EXPECT_NE(watched_.reserved[0].fingerprints, watched_.reserved[1].fingerprints);
  EXPECT_NE(watched_.reserved[0].fingerprints, watched_.reserved[2].fingerprints);
}

TEST_F(SealedStoreTest, ACompletionOverAnotherKeyIsComparedOnce) {
  const auto store = Open();
  const Uuid token = TokenOf(Reserve(*store, ReserveNamed("order-1")));
  ASSERT_TRUE(Complete(*store, CompleteNamed("order-1", token)).ok());
  UseRing(absl::StrCat(TestKey(1, start_), TestKey(2, start_)));
  EXPECT_TRUE(Complete(*store, CompleteNamed("order-1", token))->repeated);
  EXPECT_EQ(watched_.Calls(OperationKind::kComplete), 3);
  EXPECT_EQ(LossCauseOf(Complete(*store, CompleteNamed("order-1", token, "other")).status()),
            LossCause::kCompleted);
  // A token that was never of this record is refused without a second look.
  const int before = watched_.Calls(OperationKind::kComplete);
  EXPECT_EQ(LossCauseOf(Complete(*store, CompleteNamed("order-1", Uuid::Random())).status()),
            LossCause::kSuperseded);
  EXPECT_EQ(watched_.Calls(OperationKind::kComplete), before + 1);
}

TEST_F(SealedStoreTest, AWholeBatchUnderAnotherKeyIsTwoCalls) {
  const auto store = Open();
  std::vector<ReserveOp> ops;
  for (int i = 0; i < 50; ++i) ops.push_back(ReserveNamed(absl::StrCat("order-", i)));
  std::vector<CompleteOp> completions;
  for (const auto& verdict : store->Reserve(ops)) {
    completions.push_back(CompleteNamed(ops[completions.size()].key.key, TokenOf(verdict),
                                        absl::StrCat("reply ", completions.size())));
  }
  for (const auto& done : store->Complete(completions)) ASSERT_TRUE(done.ok());
  UseRing(absl::StrCat(TestKey(1, start_), TestKey(2, start_)));
  ops.push_back(ReserveNamed("new"));
  const int before = watched_.Calls(OperationKind::kReserve);
  const SharedAnswers answers = store->CompleteAndReserve(completions, ops);
  EXPECT_EQ(watched_.Calls(OperationKind::kReserve), before + 2);
  for (std::size_t i = 0; i < completions.size(); ++i) {
    EXPECT_TRUE(answers.completions[i]->repeated);
    ASSERT_NE(As<Replay>(answers.verdicts[i]), nullptr) << answers.verdicts[i].status();
    EXPECT_EQ(As<Replay>(answers.verdicts[i])->reply, completions[i].reply);
  }
  EXPECT_NE(As<Reserved>(answers.verdicts.back()), nullptr);
}

// Each batch may have a large replay.
TEST_F(SealedStoreTest, ALargeReplayDelaysNoRecordUnderAnEarlierKey) {
  const auto store = Open();
  const Uuid early = TokenOf(Reserve(*store, ReserveNamed("early")));
  ASSERT_TRUE(Complete(*store, CompleteNamed("early", early)).ok());
  UseRing(absl::StrCat(TestKey(1, start_), TestKey(2, start_)));
  const Uuid large = TokenOf(Reserve(*store, ReserveNamed("large")));
  ASSERT_TRUE(Complete(*store, CompleteNamed("large", large, std::string(5 << 20, 'r'))).ok());
  const std::vector<ReserveOp> ops = {ReserveNamed("early"), ReserveNamed("large")};
  const auto verdicts = store->Reserve(ops);
  EXPECT_NE(As<Replay>(verdicts[0]), nullptr) << verdicts[0].status();
  EXPECT_NE(As<Replay>(verdicts[1]), nullptr) << verdicts[1].status();
}

// A caller with wrong versions costs one more call of the store, however many it sends.
TEST_F(SealedStoreTest, RecordsThatCannotBeComparedAreExplainedTogether) {
  const auto store = Open();
  std::vector<ReserveOp> ops;
  for (int i = 0; i < 50; ++i) ops.push_back(ReserveNamed(absl::StrCat("order-", i)));
  store->Reserve(ops);
  UseRing(absl::StrCat(TestKey(2, start_), TestKey(3, start_)));
  for (const auto& verdict : store->Reserve(ops)) {
    EXPECT_EQ(ReasonOf(verdict.status()), Reason::kRecordDamaged);
    EXPECT_THAT(std::string(verdict.status().message()), HasSubstr("under key 1, which"));
  }
  EXPECT_EQ(watched_.Calls(OperationKind::kReserve), 3);
  EXPECT_EQ(watched_.Calls(OperationKind::kGet), 1);
}

TEST_F(SealedStoreTest, WhatIsNoReplyIsRefusedAlone) {
  const auto store = Open();
  const std::vector<ReserveOp> ops = {ReserveNamed("order-1"), ReserveNamed("order-2")};
  const auto verdicts = store->Reserve(ops);
  std::vector<CompleteOp> completions = {CompleteNamed("order-1", TokenOf(verdicts[0])),
                                         CompleteNamed("order-2", TokenOf(verdicts[1]))};
  completions[0].reply.bytes = "\x08";
  const auto done = store->Complete(completions);
  EXPECT_EQ(ReasonOf(done[0].status()), Reason::kRecordDamaged);
  EXPECT_TRUE(done[1].ok()) << done[1].status();
}

TEST_F(SealedStoreTest, AClockThatStepsBackStoresNothingUnsealed) {
  const auto store = Open(/*accept_unsealed=*/true);
  UseRing(TestKey(1, start_ + absl::Hours(1)));
  TokenOf(Reserve(*store, ReserveNamed("before")));
  EXPECT_EQ(watched_.reserved[0].fingerprints[0].key_id, 0U);
  clock_.Advance(absl::Hours(1));
  const Uuid token = TokenOf(Reserve(*store, ReserveNamed("order-1")));
  EXPECT_EQ(watched_.reserved[0].fingerprints[0].key_id, 1U);
  clock_.StepWall(-absl::Hours(2));
  TokenOf(Reserve(*store, ReserveNamed("order-2")));
  EXPECT_EQ(watched_.reserved[0].fingerprints[0].key_id, 1U);
  Complete(*store, CompleteNamed("order-1", token)).IgnoreError();
  EXPECT_TRUE(ReplyEnvelope::IsSealed(watched_.completed[0].reply.bytes));
}

TEST_F(SealedStoreTest, ASealedCheckpointStaysWithinTheBoundOfTheSchema) {
  const auto store = Open();
  ExtendOp extend = ExtendNamed("order-1", TokenOf(Reserve(*store, ReserveNamed("order-1"))));
  extend.checkpoint = std::string(limits::kMaxCheckpointBytes, 'c');
  ASSERT_TRUE(store->Extend({&extend, 1}).at(0).ok());
  EXPECT_EQ(watched_.extended[0].checkpoint->size(),
            limits::kMaxCheckpointBytes + kSealedCheckpointBytes);
  // migrations/006_sealed_checkpoints.up.sql.
  EXPECT_LE(watched_.extended[0].checkpoint->size(), 4224U);
}

TEST_F(SealedStoreTest, ACheckpointFromBeforeIsReadWhereThatIsAccepted) {
  const Uuid token = TokenOf(Reserve(memory_, ReserveNamed("order-1")));
  ExtendOp extend = ExtendNamed("order-1", token);
  extend.checkpoint = "step 1";
  ASSERT_TRUE(memory_.Extend({&extend, 1}).at(0).ok());
  clock_.Advance(absl::Minutes(1));
  const auto next = Reserve(*Open(/*accept_unsealed=*/true), ReserveNamed("order-1"));
  ASSERT_NE(As<Reserved>(next), nullptr);
  EXPECT_EQ(As<Reserved>(next)->checkpoint, "step 1");
}

// An operator who recovers a record sends the fingerprints that Get shows.
TEST_F(SealedStoreTest, TheFingerprintOfTheRecordIsThatOfTheRequest) {
  const auto store = Open();
  ReserveOp op = ReserveNamed("order-1");
  const CompleteOp complete = CompleteNamed("order-1", TokenOf(Reserve(*store, op)));
  ASSERT_TRUE(Complete(*store, complete).ok());
  const GetOp get = GetNamed("order-1");
  const absl::StatusOr<Record> record = store->Get({&get, 1}).at(0);
  ASSERT_TRUE(record.ok());
  op.fingerprints = {FromProto(ToProto(record->fingerprints.at(0)))};
  for (const char* const ring : {"its own", "the next"}) {
    const auto replay = Reserve(*store, op);
    ASSERT_NE(As<Replay>(replay), nullptr) << ring << ": " << replay.status();
    EXPECT_EQ(store->MatchRequest(*record, op), FingerprintMatch::kSame);
    UseRing(absl::StrCat(TestKey(1, start_), TestKey(2, start_)));
  }
}

// Threads that reserve, complete, repeat and read, on two replicas that get each new key at
// different times, before it seals.
TEST_F(SealedStoreTest, ARotationUnderLoadChangesNoAnswer) {
  const auto others = std::make_shared<KeyRingSource>(rings_->Current());
  SealedStoreOptions options;
  options.clock = &clock_;
  SealedStore one(memory_, rings_, options);
  SealedStore two(memory_, others, options);
  std::atomic<bool> stop{false};
  std::atomic<int> cycles{0};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      SealedStore* const replicas[] = {&one, &two};
      for (int i = 0; !stop; ++i) {
        const std::string name = absl::StrCat("order-", thread, "-", i);
        const auto grant = Reserve(*replicas[i % 2], ReserveNamed(name));
        ASSERT_NE(As<Reserved>(grant), nullptr) << grant.status();
        const CompleteOp op = CompleteNamed(name, As<Reserved>(grant)->token, name);
        ASSERT_TRUE(Complete(*replicas[i / 2 % 2], op).ok());
        // The first one again and again, under ever newer keys.
        for (const std::string& again : {name, absl::StrCat("order-", thread, "-0")}) {
          for (SealedStore* const replica : replicas) {
            const auto replay = Reserve(*replica, ReserveNamed(again));
            ASSERT_NE(As<Replay>(replay), nullptr) << replay.status();
            ASSERT_EQ(As<Replay>(replay)->reply, CompleteNamed(again, Uuid(), again).reply);
            ASSERT_NE(As<Mismatch>(Reserve(*replica, ReserveNamed(again, 'b'))), nullptr);
          }
        }
        const auto repeated = Complete(*replicas[(i + 1) % 2], op);
        ASSERT_TRUE(repeated.ok() && repeated->repeated) << repeated.status();
        ++cycles;
      }
    });
  }
  std::string ring = TestKey(1, start_);
  const auto wait_for_cycles = [&cycles](int more) {
    for (const int until = cycles + more; cycles < until && !HasFailure();) {
      std::this_thread::yield();
    }
  };
  for (std::uint32_t id = 2; id <= 8; ++id) {
    ring += TestKey(id, clock_.Now() + absl::Seconds(1));
    rings_->Replace(TestKeyRing(ring));
    wait_for_cycles(10);
    others->Replace(TestKeyRing(ring));
    clock_.Advance(absl::Seconds(1));
    wait_for_cycles(20);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(rings_->Current()->SealsAt(clock_.Now())->id(), 8U);
}

TEST_F(SealedStoreTest, CallsThatBeginThroughAHeldConnectionAreSealedToo) {
  HoldingStore holding(watched_, 1);
  SealedStoreOptions options;
  options.clock = &clock_;
  SealedStore store(holding, rings_, options);
  const auto reserve = [&store](const ReserveOp& op) {
    const auto connection = store.Hold([] {});
    EXPECT_TRUE(connection->BeginReserve({&op, 1}));
    return connection->FinishReserve().at(0);
  };
  const Uuid token = TokenOf(reserve(ReserveNamed("order-1")));
  EXPECT_EQ(watched_.reserved.at(0).fingerprints.at(0).key_id, 1U);
  const CompleteOp completion = CompleteNamed("order-1", token);
  {
    const auto connection = store.Hold([] {});
    ASSERT_TRUE(connection->BeginComplete({&completion, 1}));
    EXPECT_TRUE(connection->FinishComplete().at(0).ok());
  }
  EXPECT_NE(watched_.completed.at(0).reply.bytes, completion.reply.bytes);
  EXPECT_EQ(holding.own_calls(), 0);

  // Under the new key the first comparison finds no fingerprint in common.
  UseRing(absl::StrCat(TestKey(1, start_), TestKey(2, start_)));
  const auto replay = reserve(ReserveNamed("order-1"));
  ASSERT_NE(As<Replay>(replay), nullptr) << replay.status();
  EXPECT_EQ(As<Replay>(replay)->reply.bytes, completion.reply.bytes);
  EXPECT_EQ(holding.own_calls(), 1);
}

TEST_F(SealedStoreTest, WhatCannotBeSealedDoesNotBegin) {
  HoldingStore holding(watched_, 1);
  SealedStoreOptions options;
  options.clock = &clock_;
  SealedStore store(holding, rings_, options);
  CompleteOp completion = CompleteNamed("order-1", Uuid::Random());
  completion.reply.bytes = "no reply";
  EXPECT_FALSE(store.Hold([] {})->BeginComplete({&completion, 1}));
}

}  // namespace
}  // namespace idempotency::internal
