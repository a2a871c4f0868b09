// Sealed replies and checkpoints move under another key, in every store that does not seal by
// itself: afterwards the former key opens nothing, and a record that changed meanwhile stays.
#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/reply.h"
#include "server/sealing/sealed_checkpoint.h"
#include "server/store/limits.h"
#include "server/store/reply_envelope.h"
#include "tests/conformance/rotation_fixture.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// Has every part replaced, after `meanwhile` has run for the record of its name.
class HookedSealer final : public ContentSealer {
 public:
  ResealedContent Reseal(const StoredContent& stored) override {
    seen.push_back(stored);
    const auto hook = meanwhile.find(stored.key.key);
    if (hook != meanwhile.end()) std::exchange(hook->second, [] {})();
    ResealedContent after;
    if (stored.reply) after.reply = reply;
    if (!stored.checkpoint.empty()) after.checkpoint = "sealed anew";
    return after;
  }

  std::vector<StoredContent> seen;
  std::map<std::string, std::function<void()>> meanwhile;
  EncodedReply reply;
};

// Nothing changes.
class Reader final : public ContentSealer {
 public:
  ResealedContent Reseal(const StoredContent& stored) override {
    contents[stored.key.key] = stored;
    return {};
  }

  std::map<std::string, StoredContent> contents;
};

class ResealTest : public RotationFixture {
 protected:
  static ResealOp Resealing() {
    ResealOp op;
    op.name_space = "payments";
    op.note = {"alice", "ticket 42"};
    return op;
  }
  // Step by step, to the end.
  static ResealStep ResealAll(Store& store, ResealOp op) {
    ResealStep total;
    do {
      const absl::StatusOr<ResealStep> step = store.Reseal(op);
      EXPECT_THAT(step, Succeeds());
      if (!step.ok()) return total;
      total.examined += step->examined;
      total.resealed.insert(total.resealed.end(), step->resealed.begin(), step->resealed.end());
      total.damaged.insert(total.damaged.end(), step->damaged.begin(), step->damaged.end());
      total.busy += step->busy;
      total.current += step->current;
      total.unsealed += step->unsealed;
      total.sealing_key_id = step->sealing_key_id;
      for (const auto& [id, use] : step->key_uses) {
        total.key_uses[id].contents += use.contents;
        total.key_uses[id].fingerprints += use.fingerprints;
      }
      op.after = step->next;
    } while (op.after);
    return total;
  }
  static ResealStep ResealAll(Store& store) { return ResealAll(store, Resealing()); }

  std::vector<AuditEntry> Audit() {
    AuditOp op;
    op.name_space = "payments";
    return store().ReadAudit(op).value_or(AuditPage()).entries;
  }
  // The contents of the store, by the name of the record.
  std::map<std::string, StoredContent> Contents() {
    Reader reader;
    ResealOp op = Resealing();
    op.sealer = &reader;
    op.validate_only = true;
    ResealAll(store(), op);
    return std::move(reader.contents);
  }
  Uuid MustReserve(Store& store, const ReserveOp& op) {
    return Expect<Reserved>(Reserve(store, op)).token;
  }
  static void Extend(Store& store, const std::string& name, const Uuid& token,
                     const std::string& checkpoint) {
    ExtendOp op = ExtendNamed(name, token);
    op.checkpoint = checkpoint;
    EXPECT_THAT(store.Extend({&op, 1}).at(0), Succeeds());
  }
  static std::uint32_t KeyOfReply(const StoredContent& content) {
    return ReplyEnvelope::Parse(*content.reply).value().key_id;
  }

  // "done", "short" without its content, "stopped" with a checkpoint, and "running".
  void Fill(Store& before) {
    done_ = MustReserve(before, ReserveNamed("done"));
    Extend(before, "done", done_, "step 9");
    ASSERT_THAT(Complete(before, "done", done_), Succeeds());
    ReserveOp op = ReserveNamed("short");
    op.reply_retention = absl::Seconds(10);
    short_ = MustReserve(before, op);
    ASSERT_THAT(Complete(before, "short", short_), Succeeds());
    Extend(before, "stopped", MustReserve(before, ReserveNamed("stopped")), "step 1");
    running_ = MustReserve(before, ReserveNamed("running"));
    Advance(absl::Seconds(10));
    ASSERT_EQ(SweepAll().replies_dropped, 1);
  }

  Uuid done_;
  Uuid short_;
  Uuid running_;
};
INSTANTIATE_TEST_SUITE_P(Stores, ResealTest, ::testing::ValuesIn(PlainStores()), StoreName);

TEST_P(ResealTest, TheFormerKeyOpensNothingAfterwards) {
  const auto before = StoreWith({1});
  Fill(*before);
  const auto after = StoreWith({1, 2});
  const ResealStep step = ResealAll(*after);
  EXPECT_EQ(step.examined, 4);
  EXPECT_THAT(step.resealed,
              UnorderedElementsAre(IdNamed("done"), IdNamed("short"), IdNamed("stopped")));
  EXPECT_EQ(step.sealing_key_id, 2U);
  EXPECT_EQ(step.key_uses.at(1).contents, 3);
  EXPECT_EQ(step.key_uses.at(1).fingerprints, 4);

  auto contents = Contents();
  ASSERT_THAT(contents, SizeIs(4));
  EXPECT_EQ(KeyOfReply(contents["done"]), 2U);
  EXPECT_EQ(KeyOfReply(contents["short"]), 2U);
  EXPECT_EQ(KeyOfCheckpoint(contents["done"].checkpoint), 2U);
  EXPECT_EQ(KeyOfCheckpoint(contents["stopped"].checkpoint), 2U);
  // Without the former key, what is stored opens; with it alone, nothing does.
  const auto newest = StoreWith({2});
  EXPECT_EQ(Get(*newest, "done")->reply, ReplyWith("paid"));
  EXPECT_EQ(DecodeReply(*Get(*newest, "short")->reply)->content(), v1::REPLY_CONTENT_STATUS_ONLY);
  EXPECT_EQ(*OpenCheckpoint(*TestKeyRing(TestKey(2, start_)), KeyNamed("stopped"),
                            IdNamed("stopped"), contents["stopped"].checkpoint),
            "step 1");
  for (const char* const name : {"done", "short"}) {
    EXPECT_THAT(Get(*before, name), FailsWith(Reason::kRecordDamaged)) << name;
  }

  // Retries and repeated completions are as before.
  EXPECT_EQ(Expect<Replay>(Reserve(*after, ReserveNamed("done"))).reply, ReplyWith("paid"));
  EXPECT_THAT(Complete(*after, "done", done_), Succeeds());
  EXPECT_THAT(Complete(*after, "done", done_, "other"), FailsWith(Reason::kReservationLost));
  EXPECT_THAT(Complete(*after, "short", short_), Succeeds());
  EXPECT_THAT(Complete(*after, "short", short_, "other"), FailsWith(Reason::kReservationLost));
  EXPECT_THAT(Complete(*after, "running", running_), Succeeds());
  Advance(absl::Seconds(30));
  EXPECT_EQ(Expect<Reserved>(Reserve(*after, ReserveNamed("stopped"))).checkpoint, "step 1");
}

TEST_P(ResealTest, ASecondRunFindsNothingToDo) {
  Fill(*StoreWith({1}));
  const auto after = StoreWith({1, 2});
  ResealAll(*after);
  const auto contents = Contents();
  const ResealStep again = ResealAll(*after);
  EXPECT_THAT(again.resealed, IsEmpty());
  EXPECT_EQ(again.current, 3);
  EXPECT_EQ(again.key_uses.at(1).contents, 0);
  EXPECT_EQ(again.key_uses.at(1).fingerprints, 4);
  EXPECT_EQ(again.key_uses.at(2).contents, 3);
  EXPECT_EQ(Contents().at("done").reply, contents.at("done").reply);
  EXPECT_THAT(Audit(), SizeIs(1));
  // A replica on which the newer key does not seal yet.
  const auto waiting =
      StoreOf(absl::StrCat(TestKey(1, start_), TestKey(2, start_ + absl::Hours(1))), false);
  EXPECT_THAT(ResealAll(*waiting).resealed, IsEmpty());
}

TEST_P(ResealTest, TheAuditLogHasOneEntryForAStep) {
  Fill(*StoreWith({1}));
  const auto after = StoreWith({1, 2});
  ResealOp op = Resealing();
  op.validate_only = true;
  EXPECT_THAT(ResealAll(*after, op).resealed, SizeIs(3));
  EXPECT_EQ(KeyOfReply(Contents().at("done")), 1U);
  EXPECT_THAT(Audit(), IsEmpty());
  ResealStep step = ResealAll(*after);
  const std::vector<AuditEntry> entries = Audit();
  ASSERT_THAT(entries, SizeIs(1));
  EXPECT_EQ(entries[0].action, AuditAction::kResealed);
  EXPECT_EQ(entries[0].note.actor, "alice");
  EXPECT_EQ(entries[0].note.reason, "ticket 42");
  EXPECT_EQ(entries[0].records, 3);
  EXPECT_EQ(entries[0].record_id, *std::max_element(step.resealed.begin(), step.resealed.end()));
  EXPECT_EQ(entries[0].at, Now());
  EXPECT_FALSE(entries[0].forced);
}

TEST_P(ResealTest, StepsVisitEveryRecordOfTheNamespaceOnce) {
  const auto before = StoreWith({1});
  for (int i = 0; i < 7; ++i) {
    ReserveOp op = ReserveNamed(absl::StrCat("key-", i));
    op.key.scope = absl::StrCat("tenant-", i % 3);
    op.id = RecordIdFor(op.key);
    const CompleteOp complete{op.key, op.id, MustReserve(*before, op), ReplyWith("paid")};
    ASSERT_THAT(before->Complete({&complete, 1}).at(0), Succeeds());
  }
  ReserveOp other = ReserveNamed("other");
  other.key.name_space = "orders";
  other.id = RecordIdFor(other.key);
  const CompleteOp complete{other.key, other.id, MustReserve(*before, other), ReplyWith("paid")};
  ASSERT_THAT(before->Complete({&complete, 1}).at(0), Succeeds());
  ResealOp op = Resealing();
  op.limit = 2;
  const auto after = StoreWith({1, 2});
  const ResealStep step = ResealAll(*after, op);
  EXPECT_EQ(step.examined, 7);
  EXPECT_THAT(std::set<RecordId>(step.resealed.begin(), step.resealed.end()), SizeIs(7));
  const GetOp get{other.id, other.key};
  EXPECT_THAT(before->Get({&get, 1}).at(0), Succeeds());
}

TEST_P(ResealTest, AStepReadsABoundedNumberOfBytes) {
  const auto before = StoreWith({1});
  const std::string body(limits::kMaxResealStepBytes / 2 + 1, 'x');
  for (const char* const name : {"a", "b", "c"}) {
    ASSERT_THAT(Complete(*before, name, MustReserve(*before, ReserveNamed(name)), body),
                Succeeds());
  }
  const auto after = StoreWith({1, 2});
  const absl::StatusOr<ResealStep> first = after->Reseal(Resealing());
  ASSERT_THAT(first, Succeeds());
  EXPECT_EQ(first->examined, 2);
  ASSERT_TRUE(first->next);
  ResealOp rest = Resealing();
  rest.after = first->next;
  EXPECT_THAT(ResealAll(*after, rest).resealed, SizeIs(1));
  for (const char* const name : {"a", "b", "c"}) {
    EXPECT_EQ(DecodeReply(*Get(*StoreWith({2}), name)->reply)->body(), body);
  }
}

// Between the two statements of a step, one change at a time.
TEST_P(ResealTest, OnlyTheVeryReplyAndCheckpointThatWereReadAreReplaced) {
  Store& plain = store();
  const Uuid first = MustReserve(plain, ReserveNamed("order"));
  ASSERT_THAT(Complete(plain, "order", first, "paid"), Succeeds());
  HookedSealer sealer;
  sealer.reply = ReplyWith("sealed anew");
  ResealOp op = Resealing();
  op.sealer = &sealer;
  // The same reply of another life of the record.
  sealer.meanwhile["order"] = [&] {
    PurgeOp purge;
    purge.name_space = "payments";
    purge.key = KeyNamed("order");
    purge.note = {"bob", "ticket 43"};
    EXPECT_THAT(plain.Purge(purge), Succeeds());
    const Uuid second = MustReserve(plain, ReserveNamed("order"));
    ASSERT_THAT(Complete(plain, "order", second, "paid"), Succeeds());
  };
  EXPECT_EQ(plain.Reseal(op)->busy, 1);
  EXPECT_EQ(Get(plain, "order")->reply, ReplyWith("paid"));
  // Another reply of the same attempt: of a run on another replica.
  HookedSealer other;
  other.reply = ReplyWith("sealed by another");
  sealer.meanwhile["order"] = [&] {
    ResealOp nested = Resealing();
    nested.sealer = &other;
    EXPECT_THAT(plain.Reseal(nested)->resealed, ElementsAre(IdNamed("order")));
  };
  EXPECT_EQ(plain.Reseal(op)->busy, 1);
  EXPECT_EQ(Get(plain, "order")->reply, other.reply);
  // A heartbeat.
  const Uuid token = MustReserve(plain, ReserveNamed("running"));
  Extend(plain, "running", token, "step 1");
  sealer.meanwhile["running"] = [&] { Extend(plain, "running", token, "step 2"); };
  EXPECT_EQ(plain.Reseal(op)->busy, 1);
  EXPECT_EQ(Contents().at("running").checkpoint, "step 2");
  // A completion leaves the checkpoint as it was read, and brings a reply that was not.
  sealer.meanwhile["running"] = [&] {
    ASSERT_THAT(Complete(plain, "running", token, "paid"), Succeeds());
  };
  EXPECT_EQ(plain.Reseal(op)->busy, 0);
  EXPECT_EQ(Contents().at("running").checkpoint, "sealed anew");
  EXPECT_EQ(Get(plain, "running")->reply, ReplyWith("paid"));
}

// The end of a reply's retention, between the two statements of a step.
TEST_P(ResealTest, ContentThatIsDroppedMeanwhileStaysDropped) {
  const auto before = StoreWith({1});
  ReserveOp op = ReserveNamed("short");
  op.reply_retention = absl::Seconds(10);
  ASSERT_THAT(Complete(*before, "short", MustReserve(*before, op)), Succeeds());
  Advance(absl::Seconds(10));
  HookedSealer sealer;
  sealer.reply = ReplyWith("sealed anew");
  sealer.meanwhile["short"] = [this] { EXPECT_EQ(SweepAll().replies_dropped, 1); };
  ResealOp reseal = Resealing();
  reseal.sealer = &sealer;
  EXPECT_EQ(store().Reseal(reseal)->busy, 1);
  EXPECT_EQ(DecodeReply(*Get(*before, "short")->reply)->content(), v1::REPLY_CONTENT_STATUS_ONLY);
  EXPECT_TRUE(Contents().at("short").completed_digest);
}

TEST_P(ResealTest, WhatDoesNotOpenStaysAndIsNamed) {
  const auto lost = StoreWith({1});
  ASSERT_THAT(Complete(*lost, "lost", MustReserve(*lost, ReserveNamed("lost"))), Succeeds());
  const auto before = StoreWith({2});
  ASSERT_THAT(Complete(*before, "done", MustReserve(*before, ReserveNamed("done"))), Succeeds());
  const ResealStep step = ResealAll(*StoreWith({2, 3}));
  EXPECT_THAT(step.damaged, ElementsAre(IdNamed("lost")));
  EXPECT_THAT(step.resealed, ElementsAre(IdNamed("done")));
  EXPECT_EQ(step.key_uses.at(0).contents, 1);
  EXPECT_EQ(step.key_uses.at(0).fingerprints, 1);
  EXPECT_EQ(Get(*lost, "lost")->reply, ReplyWith("paid"));
}

// Sealing it would vouch for what another hand may have written.
TEST_P(ResealTest, WhatIsStoredUnsealedStaysSo) {
  ASSERT_THAT(Complete(store(), "plain", MustReserve(store(), ReserveNamed("plain"))), Succeeds());
  const auto after = StoreWith({1, 2}, /*accept_unsealed=*/true);
  const ResealStep step = ResealAll(*after);
  EXPECT_EQ(step.unsealed, 1);
  EXPECT_THAT(step.resealed, IsEmpty());
  EXPECT_EQ(Contents().at("plain").reply, ReplyWith("paid"));
}

TEST_P(ResealTest, WithoutAKeyThatSealsItIsRefused) {
  EXPECT_THAT(store().Reseal(Resealing()), FailsWith(Reason::kRequestInvalid));
  const auto waiting = StoreOf(TestKey(1, start_ + absl::Hours(1)), /*accept_unsealed=*/true);
  EXPECT_THAT(waiting->Reseal(Resealing()), FailsWith(Reason::kRequestInvalid));
}

// Retries and repeated completions while the rows move.
TEST_P(ResealTest, CallersGetTheirRepliesMeanwhile) {
  constexpr int kRecords = 40;
  const auto before = StoreWith({1});
  const auto name = [](int i) { return absl::StrCat("key-", i); };
  const auto body = [](int i) { return absl::StrCat("paid ", i); };
  std::vector<Uuid> tokens;
  for (int i = 0; i < kRecords; ++i) {
    tokens.push_back(MustReserve(*before, ReserveNamed(name(i))));
    ASSERT_THAT(Complete(*before, name(i), tokens.back(), body(i)), Succeeds());
  }
  const auto after = StoreWith({1, 2});
  ResealStep step;
  std::thread resealing([&] {
    pthread_setname_np(pthread_self(), "reseal-test");
    ResealOp op = Resealing();
    op.limit = 3;
    step = ResealAll(*after, op);
  });
  for (int i = kRecords - 1; i >= 0; --i) {
    EXPECT_EQ(Expect<Replay>(Reserve(*after, ReserveNamed(name(i)))).reply, ReplyWith(body(i)));
    const absl::StatusOr<Completion> again = Complete(*after, name(i), tokens[i], body(i));
    ASSERT_THAT(again, Succeeds());
    EXPECT_TRUE(again->repeated);
  }
  resealing.join();
  EXPECT_EQ(step.busy + static_cast<std::int64_t>(step.resealed.size()), kRecords);
  ResealAll(*after);
  for (int i = 0; i < kRecords; ++i) {
    EXPECT_EQ(Get(*StoreWith({2}), name(i))->reply, ReplyWith(body(i)));
  }
}

}  // namespace
}  // namespace idempotency::internal
