#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/store/limits.h"
#include "tests/conformance/store_fixture.h"

namespace idempotency::internal {
namespace {

constexpr int kBatch = static_cast<int>(limits::kMaxBatch);

// A full batch of keys.
class BatchTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (HasFatalFailure()) return;
    for (int i = 0; i < kBatch; ++i) {
      ops_.push_back(OpFor(i % 2 == 0 ? absl::StrCat("key-", i) : KeyMadeAt(Now())));
    }
  }

  std::vector<ReserveOp> ops_;
};
IDEMPOTENCY_FOR_EVERY_STORE(BatchTest);

TEST_P(BatchTest, NothingIsAnsweredWithNothing) {
  EXPECT_TRUE(store().Reserve({}).empty());
  EXPECT_TRUE(store().Complete({}).empty());
  EXPECT_TRUE(store().Release({}).empty());
  EXPECT_TRUE(store().Extend({}).empty());
  EXPECT_TRUE(store().Get({}).empty());
}

TEST_P(BatchTest, EveryReservationIsAnsweredAtItsIndex) {
  for (int i = 0; i < kBatch; ++i) {
    ReserveOp& op = ops_[i];
    if (i % 6 == 0) continue;  // new
    const Reserved reserved = MustReserve(op);
    if (i % 6 == 2) {
      ASSERT_THAT(Complete(op, reserved.token, op.key.key), Succeeds());
    }
    if (i % 6 == 3) op.fingerprints = {Print(1, 'b')};
    if (i % 6 == 4) {
      ASSERT_THAT(Release(op, reserved.token), Succeeds());
    }
    if (i % 6 == 5) op.key.scope = "collides";
  }
  const std::vector<absl::StatusOr<Verdict>> answers = store().Reserve(ops_);
  ASSERT_EQ(answers.size(), ops_.size());
  for (int i = 0; i < kBatch; ++i) {
    SCOPED_TRACE(i);
    switch (i % 6) {
      case 0:
        EXPECT_EQ(Expect<Reserved>(answers[i]).attempt, 1u);
        break;
      case 1:
        Expect<InFlight>(answers[i]);
        break;
      case 2:
        EXPECT_EQ(Expect<Replay>(answers[i]).reply, ReplyWith(ops_[i].key.key));
        break;
      case 3:
        Expect<Mismatch>(answers[i]);
        break;
      case 4:
        EXPECT_EQ(Expect<Reserved>(answers[i]).attempt, 2u);
        break;
      default:
        EXPECT_THAT(answers[i], FailsWith(Reason::kRecordIdCollision));
    }
  }
}

TEST_P(BatchTest, LapsedRecordsOfEveryPolicyInOneBatch) {
  for (int i = 0; i < kBatch; ++i) {
    ops_[i].on_lease_expiry = i % 3 == 0 ? LeaseExpiry::kTakeOver : LeaseExpiry::kRequireRecovery;
    if (i % 4 == 3) ops_[i].request_token = Uuid::Random();
  }
  const std::vector<absl::StatusOr<Verdict>> first = store().Reserve(ops_);
  Advance(absl::Minutes(1));
  for (int i = 0; i < kBatch; ++i) ops_[i].recover = i % 2 == 0;
  const std::vector<absl::StatusOr<Verdict>> second = store().Reserve(ops_);
  for (int i = 0; i < kBatch; ++i) {
    SCOPED_TRACE(i);
    if (i % 4 == 3) {
      EXPECT_EQ(Expect<Reserved>(second[i]).token, Expect<Reserved>(first[i]).token);
    } else if (i % 3 == 0) {
      EXPECT_TRUE(Expect<Reserved>(second[i]).took_over);
    } else if (i % 2 == 0) {
      EXPECT_TRUE(Expect<Reserved>(second[i]).recovering);
    } else {
      Expect<OutcomeUnknown>(second[i]);
    }
  }
}

TEST_P(BatchTest, EveryWriteIsAnsweredAtItsIndexAndAFailureStandsAlone) {
  const std::vector<absl::StatusOr<Verdict>> reserved = store().Reserve(ops_);
  std::vector<ExtendOp> extend;
  std::vector<CompleteOp> complete;
  std::vector<ReleaseOp> release;
  std::vector<GetOp> get;
  for (int i = 0; i < kBatch; ++i) {
    const ReserveOp& op = ops_[i];
    const Uuid token = i % 5 == 0 ? Uuid::Random() : Expect<Reserved>(reserved[i]).token;
    extend.push_back({op.key, op.id, token, absl::Seconds(60 + i), std::nullopt});
    if (i % 3 == 0) extend.back().checkpoint = absl::StrCat("checkpoint ", i);
    if (i % 2 == 0) complete.push_back({op.key, op.id, token, ReplyWith(absl::StrCat(i))});
    if (i % 2 == 1) release.push_back({op.key, op.id, token, absl::StrCat(i), i % 4 == 3});
    get.push_back({op.id, op.key});
  }
  const auto extended = store().Extend(extend);
  const auto completed = store().Complete(complete);
  const auto released = store().Release(release);
  const auto records = store().Get(get);
  for (int i = 0; i < kBatch; ++i) {
    SCOPED_TRACE(i);
    const absl::Status write = i % 2 == 0 ? completed[i / 2].status() : released[i / 2];
    ASSERT_THAT(records[i], Succeeds());
    EXPECT_EQ(records[i]->key, ops_[i].key);
    if (i % 5 == 0) {
      EXPECT_THAT(extended[i], FailsWith(Reason::kReservationLost));
      EXPECT_THAT(write, FailsWith(Reason::kReservationLost));
      EXPECT_EQ(records[i]->state, RecordState::kReserved);
      continue;
    }
    ASSERT_THAT(extended[i], Succeeds());
    EXPECT_EQ(extended[i]->lease_remaining, absl::Seconds(60 + i));
    EXPECT_THAT(write, Succeeds());
    if (i % 2 == 0) {
      EXPECT_EQ(records[i]->reply, ReplyWith(absl::StrCat(i)));
    } else {
      EXPECT_EQ(records[i]->release_reason, absl::StrCat(i));
      EXPECT_EQ(records[i]->state, i % 4 == 3 ? RecordState::kUnknown : RecordState::kReleased);
    }
  }
}

// The mixture of a busy service: completions, some of them for lost reservations, and reservations
// of keys that are new, running, completed before, or completed by this same call.
TEST_P(BatchTest, CompletionsAndReservationsTogetherAreWhatTheyAreApart) {
  std::vector<CompleteOp> completions;
  for (int i = 0; i < kBatch; ++i) {
    const ReserveOp& op = ops_[i];
    if (i % 5 == 0) continue;  // new
    Uuid token = MustReserve(op).token;
    if (i % 5 == 4) {
      ASSERT_THAT(Complete(op, token, "before"), Succeeds());
      token = Uuid::Random();
    }
    if (i % 5 == 3) token = Uuid::Random();
    if (i % 5 >= 2) completions.push_back({op.key, op.id, token, ReplyWith("now")});
  }
  const SharedAnswers answers = store().CompleteAndReserve(completions, ops_);
  ASSERT_EQ(answers.completions.size(), completions.size());
  ASSERT_EQ(answers.verdicts.size(), ops_.size());
  std::size_t next = 0;
  for (int i = 0; i < kBatch; ++i) {
    SCOPED_TRACE(i);
    switch (i % 5) {
      case 0:
        EXPECT_EQ(Expect<Reserved>(answers.verdicts[i]).attempt, 1u);
        break;
      case 1:
        Expect<InFlight>(answers.verdicts[i]);
        break;
      case 2:
        // Either may be the first.
        ASSERT_THAT(answers.completions[next++], Succeeds());
        if (std::holds_alternative<Replay>(*answers.verdicts[i])) {
          EXPECT_EQ(Expect<Replay>(answers.verdicts[i]).reply, ReplyWith("now"));
        } else {
          Expect<InFlight>(answers.verdicts[i]);
        }
        EXPECT_EQ(MustGet(ops_[i]).reply, ReplyWith("now"));
        break;
      case 3:
        EXPECT_THAT(answers.completions[next++], FailsWith(Reason::kReservationLost));
        Expect<InFlight>(answers.verdicts[i]);
        break;
      default:
        EXPECT_THAT(answers.completions[next++], FailsWith(Reason::kReservationLost));
        EXPECT_EQ(Expect<Replay>(answers.verdicts[i]).reply, ReplyWith("before"));
    }
  }
}

TEST_P(BatchTest, NewReservationsBesideCompletionsAreGrantedWithTheirTokens) {
  std::vector<ReserveOp> running(ops_.begin(), ops_.begin() + kBatch / 2);
  const std::vector<ReserveOp> fresh(ops_.begin() + kBatch / 2, ops_.end());
  std::vector<CompleteOp> completions;
  for (const ReserveOp& op : running) {
    completions.push_back({op.key, op.id, MustReserve(op).token, ReplyWith(op.key.key)});
  }
  const SharedAnswers answers = store().CompleteAndReserve(completions, fresh);
  for (std::size_t i = 0; i < running.size(); ++i) {
    ASSERT_THAT(answers.completions[i], Succeeds());
    EXPECT_FALSE(answers.completions[i]->lease_overrun);
    EXPECT_EQ(answers.completions[i]->expires_at, MustGet(running[i]).expires_at);
    EXPECT_EQ(Expect<Replay>(Reserve(running[i])).reply, ReplyWith(running[i].key.key));
  }
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    const Reserved reserved = Expect<Reserved>(answers.verdicts[i]);
    EXPECT_EQ(reserved.attempt, 1u);
    EXPECT_THAT(Complete(fresh[i], reserved.token), Succeeds());
  }
}

TEST_P(BatchTest, RepliesThatWeighTooMuchTogetherComeWithTheNextCall) {
  const std::string body(limits::kMaxBatchReplyBytes / 2 - 1024, 'b');
  const std::size_t fit = limits::kMaxBatchReplyBytes / body.size() + 1;
  ops_.resize(fit + 2);
  // The first one of the batch is no first one of the store.
  std::sort(ops_.begin(), ops_.end(),
            [](const ReserveOp& a, const ReserveOp& b) { return b.id < a.id; });
  std::vector<GetOp> gets;
  for (const ReserveOp& op : ops_) {
    ASSERT_THAT(Complete(op, MustReserve(op).token, body), Succeeds());
    gets.push_back({op.id, op.key});
  }
  const auto replays = store().Reserve(ops_);
  const auto records = store().Get(gets);
  std::vector<ReserveOp> left;
  std::size_t read = 0;
  EXPECT_TRUE(replays.front().ok()) << replays.front().status();
  EXPECT_TRUE(records.front().ok()) << records.front().status();
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    if (replays[i].ok()) {
      EXPECT_TRUE(Expect<Replay>(replays[i]).reply == ReplyWith(body));
    } else {
      EXPECT_THAT(replays[i], FailsWith(Reason::kOverloaded));
      left.push_back(ops_[i]);
    }
    if (records[i].ok()) {
      EXPECT_TRUE(records[i]->reply == ReplyWith(body));
      ++read;
    } else {
      EXPECT_THAT(records[i], FailsWith(Reason::kOverloaded));
    }
  }
  const bool repeats = GetParam().repeats_because.has_value();
  EXPECT_EQ(left.size(), repeats ? 0u : 2u);
  EXPECT_EQ(read, repeats ? ops_.size() : fit);
  for (const auto& replay : store().Reserve(left)) {
    EXPECT_TRUE(Expect<Replay>(replay).reply == ReplyWith(body));
  }
}

TEST_P(BatchTest, CheckpointsStayWithTheirRecords) {
  const std::vector<absl::StatusOr<Verdict>> reserved = store().Reserve(ops_);
  std::vector<ExtendOp> extend;
  for (int i = 0; i < kBatch; ++i) {
    extend.push_back({ops_[i].key, ops_[i].id, Expect<Reserved>(reserved[i]).token,
                      absl::Seconds(30), absl::StrCat("checkpoint ", i)});
  }
  for (const auto& extended : store().Extend(extend)) ASSERT_THAT(extended, Succeeds());
  Advance(absl::Minutes(1));
  const auto second = store().Reserve(ops_);
  for (int i = 0; i < kBatch; ++i) {
    EXPECT_EQ(Expect<Reserved>(second[i]).checkpoint, absl::StrCat("checkpoint ", i));
  }
}

}  // namespace
}  // namespace idempotency::internal
