// Random operations on the store under test and on the reference model side by
// side, by one clock: every answer and every record has to be the same.
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "core/absl_view.h"
#include "core/testing/manual_clock.h"
#include "grpc_idempotency/record_key.h"
#include "server/store/lost_reservation.h"
#include "server/store/memory/memory_store.h"
#include "tests/conformance/store_fixture.h"

namespace idempotency::internal {
namespace {

std::uint32_t Seed() {
  const char* const text = std::getenv("IDEMPOTENCY_TEST_SEED");
  return text != nullptr ? static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10))
                         : std::random_device()();
}

std::string Outcome(const absl::Status& status) {
  if (status.ok()) return "OK";
  const std::optional<Reason> reason = ReasonOf(status);
  if (!reason) return status.ToString();
  const std::optional<LossCause> cause = LossCauseOf(status);
  return absl::StrCat(AbslView(ReasonName(*reason)), cause ? " " : "",
                      cause ? AbslView(LossCauseName(*cause)) : absl::string_view());
}

std::string Outcome(const std::map<std::string, std::string>& labels) {
  return absl::StrCat(" labels ", absl::StrJoin(labels, ",", absl::PairFormatter("=")));
}

std::string Flags(const Reserved& r) {
  return absl::StrCat(r.attempt, " lease ", absl::ToInt64Microseconds(r.lease_remaining),
                      r.recovering ? " recovering" : "", r.took_over ? " took_over" : "",
                      r.after_expiry ? " after_expiry" : "", r.repeated ? " repeated" : "",
                      " after ", static_cast<int>(r.previous_attempt), " ",
                      absl::ToUnixMicros(r.created_at), "-", absl::ToUnixMicros(r.expires_at),
                      " checkpoint ", r.checkpoint, Outcome(r.labels));
}

// The content of a verdict, without the token.
std::string Outcome(const absl::StatusOr<Verdict>& verdict) {
  if (!verdict.ok()) return Outcome(verdict.status());
  const std::string name = NameOf(verdict);
  if (const auto* v = std::get_if<Reserved>(&*verdict)) return absl::StrCat(name, " ", Flags(*v));
  if (const auto* v = std::get_if<InFlight>(&*verdict)) {
    return absl::StrCat(name, " ", v->attempt, " ", absl::ToInt64Microseconds(v->lease_remaining));
  }
  if (const auto* v = std::get_if<Replay>(&*verdict)) {
    return absl::StrCat(name, " ", v->attempt, " ", absl::CHexEscape(v->reply.bytes), " ",
                        absl::ToUnixMicros(v->completed_at), "-", absl::ToUnixMicros(v->expires_at),
                        Outcome(v->labels));
  }
  if (const auto* v = std::get_if<Mismatch>(&*verdict)) return absl::StrCat(name, " ", v->attempt);
  if (const auto* v = std::get_if<OutcomeUnknown>(&*verdict)) {
    return absl::StrCat(name, " ", v->attempt, " ", static_cast<int>(v->cause), " ", v->reason, " ",
                        absl::ToUnixMicros(v->since), v->marked ? " marked" : "");
  }
  return name;
}

std::string Outcome(const absl::StatusOr<Completion>& completion) {
  if (!completion.ok()) return Outcome(completion.status());
  return absl::StrCat("completed ", absl::ToUnixMicros(completion->completed_at), "-",
                      absl::ToUnixMicros(completion->expires_at),
                      completion->lease_overrun ? " overrun" : "",
                      completion->repeated ? " repeated" : "");
}

std::string Outcome(const absl::StatusOr<Extension>& extension) {
  if (!extension.ok()) return Outcome(extension.status());
  return absl::StrCat("extended ", absl::ToInt64Microseconds(extension->lease_remaining));
}

class RandomTest : public StoreTest {
 protected:
  // One grant, by the token that each store gave it.
  struct Tokens {
    Uuid store;
    Uuid model;
  };

  void SetUp() override {
    StoreTest::SetUp();
    if (HasFatalFailure()) return;
    seed_ = Seed();
    std::cout << "IDEMPOTENCY_TEST_SEED=" << seed_ << std::endl;
    random_.seed(seed_);
    clock_.StepWall(harness().Now() - clock_.Now());
  }

  // Both clocks, which stand still otherwise.
  void Advance(absl::Duration by) {
    StoreTest::Advance(by);
    clock_.Advance(by);
  }

  int Pick(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  bool OneIn(int n) { return Pick(n) == 0; }

  // A few keys, so that they collide; timed ones occasionally replaced by newer ones, since they
  // expire for ever.
  RecordKey PickKey() {
    const int slot = Pick(12);
    std::string& key = keys_[slot];
    if (key.empty() || (slot % 2 == 1 && OneIn(40))) {
      key = slot % 2 == 0 ? absl::StrCat("key-", slot)
                          : KeyMadeAt(Now() + absl::Minutes(Pick(120) - 60));
    }
    return OpFor(key).key;
  }

  Uuid PickRequestToken() {
    if (request_tokens_.size() < 6 || OneIn(10)) {
      request_tokens_.push_back(Uuid::Random());
      return request_tokens_.back();
    }
    return request_tokens_[request_tokens_.size() - 1 - static_cast<std::size_t>(Pick(6))];
  }

  ReserveOp PickReserve() {
    ReserveOp op = OpFor("");
    op.key = PickKey();
    op.id = RecordIdFor(op.key);
    if (OneIn(12)) op.fingerprints = {Print(1, 'b')};
    if (OneIn(8)) op.fingerprints = {Print(2, 'c')};
    if (OneIn(4)) op.fingerprints = {Print(1, 'a'), Print(2, 'c')};
    if (!OneIn(3)) op.request_token = PickRequestToken();
    op.lease = absl::Seconds(1 + Pick(60));
    op.retention = absl::Minutes(1 + Pick(10));
    op.window = absl::Minutes(2 + Pick(3) * 10);
    if (OneIn(2)) op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
    op.recover = OneIn(4);
    if (OneIn(3)) op.reply_retention = absl::Seconds(1 + Pick(60));
    if (OneIn(3)) op.tombstone = absl::Seconds(Pick(900));
    if (OneIn(4)) op.labels = {{"build", absl::StrCat(Pick(9))}};
    if (OneIn(8)) op.parent = op.key;
    // Occasionally another key under the same id.
    if (OneIn(50)) op.key.scope = "elsewhere";
    return op;
  }

  // A grant of the record, mostly the last one, or a token that was never granted.
  Tokens PickTokens(const RecordId& id) {
    const auto it = grants_.find(id);
    if (it == grants_.end() || OneIn(10)) return {Uuid::Random(), Uuid::Random()};
    const std::vector<Tokens>& grants = it->second;
    return OneIn(5) ? grants[static_cast<std::size_t>(Pick(static_cast<int>(grants.size())))]
                    : grants.back();
  }

  void DoReserve() {
    const ReserveOp op = PickReserve();
    CheckReserve(op, Reserve(op));
  }

  void CheckReserve(const ReserveOp& op, const absl::StatusOr<Verdict>& got) {
    const auto wanted = model_.Reserve({&op, 1}).at(0);
    ASSERT_EQ(Outcome(got), Outcome(wanted)) << "Reserve";
    if (!got.ok()) return;
    const auto* const reserved = std::get_if<Reserved>(&*got);
    if (reserved == nullptr) return;
    const Tokens tokens{reserved->token, std::get<Reserved>(*wanted).token};
    std::vector<Tokens>& grants = grants_[op.id];
    if (!reserved->repeated) {
      grants.push_back(tokens);
      return;
    }
    ASSERT_EQ(grants.back().store, tokens.store) << "a repeat has the token of the last grant";
    ASSERT_EQ(grants.back().model, tokens.model);
  }

  // With the store's token, and with the model's.
  std::pair<CompleteOp, Uuid> PickComplete() {
    const RecordKey key = PickKey();
    const Tokens tokens = PickTokens(RecordIdFor(key));
    return {{key, RecordIdFor(key), tokens.store, ReplyWith(absl::StrCat("reply ", Pick(3)))},
            tokens.model};
  }

  void DoComplete() {
    const auto [op, model_token] = PickComplete();
    CheckComplete(op, model_token, store().Complete({&op, 1}).at(0));
  }

  void CheckComplete(CompleteOp op, const Uuid& model_token,
                     const absl::StatusOr<Completion>& got) {
    op.token = model_token;
    ASSERT_EQ(Outcome(got), Outcome(model_.Complete({&op, 1}).at(0))) << "Complete";
  }

  // Both in one call. The store may choose which of them is first, so they are of two records.
  void DoBoth() {
    const ReserveOp reservation = PickReserve();
    const auto [completion, model_token] = PickComplete();
    if (completion.id == reservation.id) return;
    const SharedAnswers got = store().CompleteAndReserve({&completion, 1}, {&reservation, 1});
    CheckComplete(completion, model_token, got.completions.at(0));
    CheckReserve(reservation, got.verdicts.at(0));
  }

  void DoRelease() {
    const RecordKey key = PickKey();
    const Tokens tokens = PickTokens(RecordIdFor(key));
    ReleaseOp op{key, RecordIdFor(key), tokens.store, absl::StrCat("why ", Pick(3)), OneIn(3)};
    if (OneIn(5)) op.reason.clear();
    if (OneIn(2)) op.pause = absl::Seconds(Pick(90));
    const auto got = store().Release({&op, 1}).at(0);
    op.token = tokens.model;
    ASSERT_EQ(Outcome(got), Outcome(model_.Release({&op, 1}).at(0))) << "Release";
  }

  void DoExtend() {
    const RecordKey key = PickKey();
    const Tokens tokens = PickTokens(RecordIdFor(key));
    ExtendOp op{key, RecordIdFor(key), tokens.store, absl::Seconds(1 + Pick(120)), std::nullopt};
    if (OneIn(2)) op.checkpoint = absl::StrCat("checkpoint ", Pick(100));
    const auto got = store().Extend({&op, 1}).at(0);
    op.token = tokens.model;
    ASSERT_EQ(Outcome(got), Outcome(model_.Extend({&op, 1}).at(0))) << "Extend";
  }

  void DoSweep() {
    const SweepProgress got = SweepAll(1 + Pick(20));
    const auto wanted = model_.Sweep({});
    ASSERT_EQ(got.removed, wanted->removed) << "Sweep";
    ASSERT_EQ(got.marked_unknown, wanted->marked_unknown) << "Sweep";
    ASSERT_EQ(got.entombed, wanted->entombed) << "Sweep";
    ASSERT_EQ(got.replies_dropped, wanted->replies_dropped) << "Sweep";
  }

  void Step() {
    switch (Pick(18)) {
      case 0:
        Advance(absl::Seconds(Pick(400)));
        return;
      case 1:
      case 2:
        Advance(absl::Milliseconds(Pick(20'000)));
        return;
      case 3:
      case 4:
        return DoComplete();
      case 5:
      case 6:
        return DoRelease();
      case 7:
      case 8:
        return DoExtend();
      case 9:
        if (OneIn(4)) DoSweep();
        return;
      case 10:
      case 11:
        return DoBoth();
      default:
        return DoReserve();
    }
  }

  void CompareRecords() {
    for (const auto& [slot, key] : keys_) {
      const ReserveOp op = OpFor(key);
      const GetOp get{op.id, op.key};
      auto got = Get(op);
      const auto wanted = model_.Get({&get, 1}).at(0);
      if (GetParam().keys_fingerprints_because && got.ok() && wanted.ok()) {
        ReserveOp same = op;
        same.fingerprints = wanted->fingerprints;
        // A tombstone has none.
        if (!same.fingerprints.empty()) ExpectFingerprints(*got, same);
        got->fingerprints = wanted->fingerprints;
      }
      ASSERT_EQ(got.ok() ? Describe(got) : Outcome(got.status()),
                wanted.ok() ? Describe(wanted) : Outcome(wanted.status()));
    }
  }

  std::uint32_t seed_ = 0;
  std::mt19937 random_;
  // The model's.
  ManualClock clock_;
  MemoryStore model_{clock_};
  std::map<int, std::string> keys_;
  std::vector<Uuid> request_tokens_;
  std::map<RecordId, std::vector<Tokens>> grants_;
};
IDEMPOTENCY_FOR_EVERY_STORE(RandomTest);

TEST_P(RandomTest, AnswersAsTheModelDoes) {
  for (int i = 0; i < GetParam().random_operations; ++i) {
    Step();
    if (i % 16 == 0) CompareRecords();
    if (HasFatalFailure()) FAIL() << "at operation " << i << ", seed " << seed_;
  }
}

}  // namespace
}  // namespace idempotency::internal
