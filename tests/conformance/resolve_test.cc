// An administrator settles a record: every situation, with and without force.
#include <pthread.h>

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/limits.h"
#include "tests/conformance/admin_fixture.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAreArray;
using ::testing::SizeIs;

class ResolveTest : public AdminTest {
 protected:
  // The required answer to a resolution without force; nullopt: it is settled.
  static std::optional<Reason> Refusal(Situation situation, bool force) {
    switch (situation) {
      case Situation::kMissing:
      case Situation::kForgotten:
      case Situation::kTombstone:
        return Reason::kRecordNotFound;
      case Situation::kCompleted:
      case Situation::kReleased:
      case Situation::kPaused:
        return Reason::kRecordChanged;
      case Situation::kLive:
      case Situation::kLiveRecovery:
        return force ? std::nullopt : std::optional<Reason>(Reason::kForceRequired);
      default:
        return std::nullopt;
    }
  }

  // The attempt that was stuck writes nothing any more.
  void ExpectLost(const Case& made) {
    EXPECT_THAT(Complete(made.op, made.token, "late"), FailsWith(Reason::kReservationLost));
    EXPECT_THAT(Complete(made.op, made.token, "settled"), FailsWith(Reason::kReservationLost));
    EXPECT_THAT(Extend(made.op, made.token, absl::Minutes(1)), FailsWith(Reason::kReservationLost));
    EXPECT_THAT(Release(made.op, made.token), FailsWith(Reason::kReservationLost));
    EXPECT_THAT(Release(made.op, made.token, true), FailsWith(Reason::kReservationLost));
  }

  void ExpectSettled(const Case& made, const ResolveOp& op) {
    const std::string settled = Describe(Get(made.op));
    ExpectLost(made);
    EXPECT_EQ(Describe(Get(made.op)), settled);
    const Record record = MustGet(made.op);
    EXPECT_EQ(record.attempt, 1u);
    EXPECT_GE(record.expires_at, Now() + limits::kDefaultRetention);
    if (op.reply) {
      EXPECT_EQ(record.state, RecordState::kCompleted);
      EXPECT_EQ(record.completed_at, Now());
      EXPECT_EQ(Expect<Replay>(Reserve(made.op)).reply, *op.reply);
    } else {
      EXPECT_EQ(record.state, RecordState::kReleased);
      EXPECT_EQ(record.release_reason, "ticket 42");
      const Reserved next = MustReserve(made.op);
      EXPECT_EQ(next.attempt, 2u);
      EXPECT_EQ(next.previous_attempt, PreviousAttempt::kReleased);
    }
  }

  void ExpectNoted(const Case& made, const ResolveOp& op, const AuditEntry& entry) {
    EXPECT_EQ(entry.at, Now());
    EXPECT_EQ(entry.note.actor, "alice");
    EXPECT_EQ(entry.note.reason, "ticket 42");
    EXPECT_EQ(entry.action,
              op.reply ? AuditAction::kResolvedCompleted : AuditAction::kResolvedReleased);
    EXPECT_EQ(entry.forced, op.force);
    EXPECT_EQ(entry.record_id, made.op.id);
    EXPECT_EQ(entry.name_space, "payments");
    EXPECT_EQ(entry.state, made.state);
    EXPECT_EQ(entry.attempt, 1u);
  }

  // One situation and one request: first as a dry run, then in earnest.
  void Try(Situation situation, bool complete, bool force) {
    SCOPED_TRACE(absl::StrCat(NameOf(situation), complete ? ", complete" : ", release",
                              force ? ", force" : ""));
    const std::size_t noted = Audit().size();
    const Case made = Make(situation);
    ResolveOp op = complete ? Completing(made) : Releasing(made);
    op.force = force;
    const std::optional<Reason> refusal = Refusal(situation, force);
    for (const bool validate_only : {true, false}) {
      op.validate_only = validate_only;
      const absl::StatusOr<Resolution> answer = store().Resolve(op);
      if (refusal) {
        EXPECT_THAT(answer, FailsWith(*refusal));
      } else {
        ASSERT_THAT(answer, Succeeds());
        EXPECT_EQ(answer->before, made.state);
        EXPECT_EQ(answer->state, complete ? RecordState::kCompleted : RecordState::kReleased);
        EXPECT_FALSE(answer->repeated);
      }
      if (refusal || validate_only) {
        EXPECT_EQ(Describe(Get(made.op)),
                  made.before.empty() ? Describe(Get(made.op)) : made.before);
        EXPECT_THAT(Audit(), SizeIs(noted));
      }
    }
    if (refusal) return;
    const std::vector<AuditEntry> entries = Audit();
    ASSERT_THAT(entries, SizeIs(noted + 1));
    ExpectNoted(made, op, entries.back());
    // A caller that did not get the answer repeats it.
    const absl::StatusOr<Resolution> again = store().Resolve(op);
    ASSERT_THAT(again, Succeeds());
    EXPECT_TRUE(again->repeated);
    EXPECT_EQ(again->key_hmac, entries.back().key_hmac);
    EXPECT_THAT(Audit(), SizeIs(noted + 1));
    ExpectSettled(made, op);
  }
};
IDEMPOTENCY_FOR_EVERY_STORE(ResolveTest);

TEST_P(ResolveTest, EverySituation) {
  for (const Situation situation : kAllSituations) {
    for (const bool complete : {true, false}) {
      for (const bool force : {false, true}) Try(situation, complete, force);
    }
  }
}

TEST_P(ResolveTest, ARecordThatMovedOnIsRefused) {
  const Case made = Make(Situation::kUnknown);
  ResolveOp op = Completing(made);
  op.force = true;
  op.expected_state = RecordState::kReserved;
  EXPECT_THAT(store().Resolve(op), FailsWith(Reason::kRecordChanged));
  op.expected_state = RecordState::kUnknown;
  op.expected_attempt = 2;
  EXPECT_THAT(store().Resolve(op), FailsWith(Reason::kRecordChanged));
  // A recovery took it meanwhile.
  op.expected_attempt = 1;
  ReserveOp recovering = made.op;
  recovering.recover = true;
  const Uuid token = MustReserve(recovering).token;
  EXPECT_THAT(store().Resolve(op), FailsWith(Reason::kRecordChanged));
  EXPECT_THAT(Complete(made.op, token, "recovered"), Succeeds());
  EXPECT_THAT(Audit(), SizeIs(0));
  const absl::Status refused = store().Resolve(op).status();
  EXPECT_EQ(ReasonOf(refused), Reason::kRecordChanged);
}

TEST_P(ResolveTest, ACollisionIsRefused) {
  const Case made = Make(Situation::kUnknown);
  ResolveOp op = Completing(made);
  op.key.key = "another";
  EXPECT_THAT(store().Resolve(op), FailsWith(Reason::kRecordIdCollision));
  EXPECT_EQ(Describe(Get(made.op)), made.before);
}

// The request token of the attempt that was settled recognises no grant any more.
TEST_P(ResolveTest, ARepeatedReservationOfTheStuckAttemptIsLost) {
  Case made;
  made.op = OpFor("repeated");
  made.op.request_token = Uuid::Random();
  made.token = MustReserve(made.op).token;
  ResolveOp op = Releasing(made);
  op.force = true;
  ASSERT_THAT(store().Resolve(op), Succeeds());
  EXPECT_THAT(Reserve(made.op), FailsWith(Reason::kReservationLost));
}

TEST_P(ResolveTest, TheTombstoneMovesWithTheEnd) {
  Case made;
  made.op = OpFor("entombed");
  made.op.retention = absl::Hours(1);
  made.op.tombstone = absl::Hours(3);
  made.token = MustReserve(made.op).token;
  ASSERT_THAT(Release(made.op, made.token, /*outcome_unknown=*/true), Succeeds());
  ResolveOp op = Completing(made);
  op.retention = absl::Hours(2);
  ASSERT_THAT(store().Resolve(op), Succeeds());
  const Record record = MustGet(made.op);
  EXPECT_EQ(record.expires_at, Now() + absl::Hours(2));
  EXPECT_EQ(record.tombstone_until, Now() + absl::Hours(5));
}

TEST_P(ResolveTest, KeysAreNotInTheLogButRecogniseable) {
  const Case one = Make(Situation::kUnknown);
  const Case two = Make(Situation::kUnknown);
  ASSERT_THAT(store().Resolve(Completing(one)), Succeeds());
  ASSERT_THAT(store().Purge(Purging(one)), Succeeds());
  ASSERT_THAT(store().Resolve(Completing(two)), Succeeds());
  const std::vector<AuditEntry> entries = Audit();
  ASSERT_THAT(entries, SizeIs(3));
  EXPECT_EQ(entries[0].key_hmac, entries[1].key_hmac);
  EXPECT_NE(entries[0].key_hmac, entries[2].key_hmac);
  EXPECT_LT(entries[0].sequence, entries[1].sequence);
  EXPECT_THAT(Audit("another"), SizeIs(0));
}

TEST_P(ResolveTest, TheLogIsReadFromEitherEndAndByRecord) {
  std::vector<Case> made;
  for (int i = 0; i < 5; ++i) {
    made.push_back(Make(Situation::kUnknown));
    ASSERT_THAT(store().Resolve(Completing(made.back())), Succeeds());
  }
  for (const Case& one : made) ASSERT_THAT(store().Purge(Purging(one)), Succeeds());
  AuditOp op;
  op.name_space = "payments";
  std::vector<std::int64_t> sequences;
  for (const AuditEntry& entry : Audit(op)) sequences.push_back(entry.sequence);
  ASSERT_THAT(sequences, SizeIs(10));
  op.newest_first = true;
  std::vector<std::int64_t> reversed;
  for (const AuditEntry& entry : Audit(op)) reversed.push_back(entry.sequence);
  EXPECT_THAT(reversed, ElementsAreArray(sequences.rbegin(), sequences.rend()));
  op.record_id = made[1].op.id;
  for (const bool newest_first : {false, true}) {
    op.newest_first = newest_first;
    const std::vector<AuditEntry> entries = Audit(op);
    ASSERT_THAT(entries, SizeIs(2));
    EXPECT_EQ(entries[newest_first ? 1 : 0].sequence, sequences[1]);
    EXPECT_EQ(entries[newest_first ? 0 : 1].sequence, sequences[6]);
  }
  op.name_space = "another";
  EXPECT_THAT(Audit(op), SizeIs(0));
}

TEST_P(ResolveTest, TheLogOutlivesTheStore) {
  const Case made = Make(Situation::kUnknown);
  const absl::StatusOr<Resolution> resolution = store().Resolve(Completing(made));
  ASSERT_THAT(resolution, Succeeds());
  if (GetParam().forgets_because) return;
  ASSERT_THAT(harness().Reopen(), Succeeds());
  const std::vector<AuditEntry> entries = Audit();
  ASSERT_THAT(entries, SizeIs(1));
  EXPECT_EQ(entries[0].key_hmac, resolution->key_hmac);
  // Under the same audit key.
  const absl::StatusOr<Resolution> again = store().Resolve(Completing(made));
  ASSERT_THAT(again, Succeeds());
  EXPECT_EQ(again->key_hmac, resolution->key_hmac);
}

// The attempt, a recovery, another administrator: one of them wins each record.
TEST_P(ResolveTest, OneOfThoseWhoSettleARecordWins) {
  constexpr int kRecords = 60;
  std::vector<Case> records;
  for (int i = 0; i < kRecords; ++i) records.push_back(Make(Situation::kUnknown));
  std::vector<std::atomic<int>> wins(kRecords);
  std::atomic<int> resolved{0};
  std::atomic<int> errors{0};
  const auto each = [&](const std::function<void(const Case&, std::atomic<int>&)>& settle) {
    return std::thread([&, settle] {
      pthread_setname_np(pthread_self(), "settler");
      for (int i = 0; i < kRecords; ++i) settle(records[i], wins[i]);
    });
  };
  const auto resolving = [&](ResolveOp op, std::atomic<int>& won) {
    const absl::StatusOr<Resolution> answer = store().Resolve(op);
    if (!answer.ok()) {
      if (ReasonOf(answer.status()) != Reason::kRecordChanged) errors += 1;
    } else if (!answer->repeated) {
      won += 1;
      resolved += 1;
    }
  };
  std::vector<std::thread> threads;
  threads.push_back(each([&](const Case& made, std::atomic<int>& won) {
    const auto completion = Complete(made.op, made.token, "late");
    if (completion.ok()) won += 1;
    if (!completion.ok() && ReasonOf(completion.status()) != Reason::kReservationLost) errors += 1;
  }));
  threads.push_back(each([&](const Case& made, std::atomic<int>& won) {
    ReserveOp op = made.op;
    op.recover = true;
    op.lease = limits::kMaxLease;
    const auto verdict = Reserve(op);
    if (!verdict.ok()) errors += 1;
    // After a release by an administrator it is the next attempt, not a recovery.
    const auto* const reserved = verdict.ok() ? std::get_if<Reserved>(&*verdict) : nullptr;
    if (reserved != nullptr && reserved->recovering) won += 1;
  }));
  threads.push_back(
      each([&](const Case& made, std::atomic<int>& won) { resolving(Completing(made), won); }));
  threads.push_back(
      each([&](const Case& made, std::atomic<int>& won) { resolving(Releasing(made), won); }));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors, 0);
  for (int i = 0; i < kRecords; ++i) EXPECT_EQ(wins[i], 1) << i;
  EXPECT_THAT(Audit(), SizeIs(static_cast<std::size_t>(resolved)));
}

// Heartbeats do not hold off an administrator who forces it, nor outlive them.
TEST_P(ResolveTest, ARunningAttemptLosesToForceWhateverItDoes) {
  constexpr int kRecords = 30;
  std::vector<Case> records;
  for (int i = 0; i < kRecords; ++i) records.push_back(Make(Situation::kLive));
  std::atomic<int> next{0};
  std::atomic<int> errors{0};
  std::vector<std::atomic<bool>> completed(kRecords);
  std::thread attempt([&] {
    pthread_setname_np(pthread_self(), "attempt");
    for (int i = 0; i < kRecords; ++i) {
      while (next <= i) {
        const auto extended = Extend(records[i].op, records[i].token, absl::Minutes(1));
        if (!extended.ok()) break;
      }
      completed[i] = Complete(records[i].op, records[i].token, "late").ok();
    }
  });
  for (int i = 0; i < kRecords; ++i) {
    ResolveOp op = Completing(records[i]);
    op.force = true;
    const auto answer = store().Resolve(op);
    if (!answer.ok() && ReasonOf(answer.status()) != Reason::kRecordChanged) errors += 1;
    const bool late = Expect<Replay>(Reserve(records[i].op)).reply == ReplyWith("late");
    EXPECT_EQ(late, !answer.ok());
    next += 1;
  }
  attempt.join();
  EXPECT_EQ(errors, 0);
  for (int i = 0; i < kRecords; ++i) {
    const bool late = Expect<Replay>(Reserve(records[i].op)).reply == ReplyWith("late");
    EXPECT_EQ(late, completed[i]) << i;
  }
}

}  // namespace
}  // namespace idempotency::internal
