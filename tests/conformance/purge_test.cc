// An administrator forgets a record, a scope, or what is older than a time.
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/conformance/admin_fixture.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PurgeTest : public AdminTest {
 protected:
  static std::optional<Reason> Refusal(Situation situation, bool force) {
    switch (situation) {
      case Situation::kMissing:
      case Situation::kForgotten:
      case Situation::kTombstone:
        return Reason::kRecordNotFound;
      case Situation::kLive:
      case Situation::kLiveRecovery:
      case Situation::kLapsedRecovery:
      case Situation::kUnknown:
      case Situation::kUnknownPastExpiry:
        return force ? std::nullopt : std::optional<Reason>(Reason::kForceRequired);
      default:
        return std::nullopt;
    }
  }

  void ExpectGone(const Case& made, bool tombstone) {
    EXPECT_THAT(Get(made.op), FailsWith(Reason::kRecordNotFound));
    EXPECT_THAT(Complete(made.op, made.token, "late"), FailsWith(Reason::kReservationLost));
    EXPECT_THAT(Extend(made.op, made.token, absl::Minutes(1)), FailsWith(Reason::kReservationLost));
    EXPECT_THAT(Release(made.op, made.token), FailsWith(Reason::kReservationLost));
    if (tombstone) {
      Expect<Expired>(Reserve(made.op));
      Advance(absl::Hours(2));
    }
    EXPECT_EQ(MustReserve(made.op).attempt, 1u);
  }

  void Try(Situation situation, bool tombstone, bool force) {
    SCOPED_TRACE(
        absl::StrCat(NameOf(situation), tombstone ? ", tombstone" : "", force ? ", force" : ""));
    const std::size_t noted = Audit().size();
    const Case made = Make(situation);
    PurgeOp op = Purging(made);
    op.force = force;
    if (tombstone) op.tombstone = absl::Hours(2);
    const std::optional<Reason> refusal = Refusal(situation, force);
    for (const bool validate_only : {true, false}) {
      op.validate_only = validate_only;
      const absl::StatusOr<PurgeStep> answer = store().Purge(op);
      if (refusal) {
        EXPECT_THAT(answer, FailsWith(*refusal));
      } else {
        ASSERT_THAT(answer, Succeeds());
        EXPECT_THAT(answer->purged, ElementsAre(made.op.id));
        EXPECT_FALSE(answer->next);
      }
      if (!refusal && !validate_only) continue;
      if (!made.before.empty()) {
        EXPECT_EQ(Describe(Get(made.op)), made.before);
      }
      EXPECT_THAT(Audit(), SizeIs(noted));
    }
    if (refusal) return;
    const std::vector<AuditEntry> entries = Audit();
    ASSERT_THAT(entries, SizeIs(noted + 1));
    const AuditEntry& entry = entries.back();
    EXPECT_EQ(entry.action, tombstone ? AuditAction::kPurgedToTombstone : AuditAction::kPurged);
    EXPECT_EQ(entry.note.actor, "alice");
    EXPECT_EQ(entry.note.reason, "ticket 42");
    EXPECT_EQ(entry.forced, force);
    EXPECT_EQ(entry.record_id, made.op.id);
    EXPECT_EQ(entry.state, made.state);
    EXPECT_EQ(entry.at, Now());
    ExpectGone(made, tombstone);
  }

  ReserveOp Add(const std::string& name_space, const std::string& scope, const std::string& key) {
    ReserveOp op = OpFor(key);
    op.key.name_space = name_space;
    op.key.scope = scope;
    op.id = RecordIdFor(op.key);
    EXPECT_THAT(Complete(op, MustReserve(op).token), Succeeds());
    return op;
  }
};
IDEMPOTENCY_FOR_EVERY_STORE(PurgeTest);

TEST_P(PurgeTest, EverySituation) {
  for (const Situation situation : kAllSituations) {
    for (const bool tombstone : {false, true}) {
      for (const bool force : {false, true}) Try(situation, tombstone, force);
    }
  }
}

// An attempt that an administrator saw as released may complete before the purge is written.
TEST_P(PurgeTest, OneRecordOnlyAsTheAdministratorSawIt) {
  const ReserveOp record = OpFor("order-1");
  ASSERT_THAT(Release(record, MustReserve(record).token), Succeeds());
  PurgeOp op;
  op.name_space = record.key.name_space;
  op.key = record.key;
  op.note = {"alice", "ticket 42"};
  op.validate_only = true;
  const absl::StatusOr<PurgeStep> seen = store().Purge(op);
  ASSERT_THAT(seen, Succeeds());
  EXPECT_EQ(seen->before, RecordState::kReleased);
  EXPECT_EQ(seen->attempt, 1u);

  op.validate_only = false;
  op.expected_state = seen->before;
  op.expected_attempt = seen->attempt;
  const Uuid token = MustReserve(record).token;
  EXPECT_THAT(store().Purge(op), FailsWith(Reason::kRecordChanged));
  ASSERT_THAT(Complete(record, token), Succeeds());
  EXPECT_THAT(store().Purge(op), FailsWith(Reason::kRecordChanged));
  op.expected_attempt = 2;
  EXPECT_THAT(store().Purge(op), FailsWith(Reason::kRecordChanged)) << "its state is another";
  EXPECT_THAT(Get(record), Succeeds());
  op.expected_state = RecordState::kCompleted;
  ASSERT_THAT(store().Purge(op), Succeeds());
  EXPECT_THAT(Get(record), FailsWith(Reason::kRecordNotFound));
}

TEST_P(PurgeTest, AScopeAndNothingElse) {
  std::vector<ReserveOp> gone;
  for (int i = 0; i < 7; ++i) {
    gone.push_back(Add("payments", "b", absl::StrCat(i)));
    gone.push_back(Add("payments", "b", KeyMadeAt(Now())));
  }
  const std::vector<ReserveOp> kept = {Add("payments", "a", "k"), Add("payments", "bb", "k"),
                                       Add("payments", "B", "k"), Add("orders", "b", "k")};
  PurgeOp op;
  op.name_space = "payments";
  op.scope = "b";
  op.limit = 4;
  op.note = Note();
  op.validate_only = true;
  EXPECT_THAT(PurgeAll(op).purged, SizeIs(14));
  EXPECT_THAT(Audit(), IsEmpty());
  op.validate_only = false;
  EXPECT_THAT(PurgeAll(op).purged, SizeIs(14));
  for (const ReserveOp& record : gone) {
    EXPECT_THAT(Get(record), FailsWith(Reason::kRecordNotFound));
  }
  for (const ReserveOp& record : kept) EXPECT_THAT(Get(record), Succeeds());
  std::set<RecordId> noted;
  for (const AuditEntry& entry : Audit()) noted.insert(entry.record_id);
  EXPECT_THAT(noted, SizeIs(14));
  EXPECT_THAT(PurgeAll(op).purged, IsEmpty());
}

// The index of the Redis store has the first bytes of a hash of each part.
TEST_P(PurgeTest, NamesWithOneBeginningOfTheirHashesAreTwo) {
  const auto [one, other] = NamesOfOneHash();
  const ReserveOp gone = Add("payments", one, "k");
  const ReserveOp kept = Add("payments", other, "k");
  PurgeOp op;
  op.name_space = "payments";
  op.scope = one;
  op.note = Note();
  EXPECT_THAT(PurgeAll(op).purged, ElementsAre(gone.id));
  EXPECT_THAT(Get(gone), FailsWith(Reason::kRecordNotFound));
  EXPECT_THAT(Get(kept), Succeeds());

  const ReserveOp gone_too = Add(one, "tenant-1", "k");
  const ReserveOp kept_too = Add(other, "tenant-1", "k");
  op.name_space = one;
  op.scope = "tenant-1";
  EXPECT_THAT(PurgeAll(op).purged, ElementsAre(gone_too.id));
  EXPECT_THAT(Get(kept_too), Succeeds());
  MustReserve(gone_too);
  op.scope.reset();
  op.created_before = Now() + absl::Minutes(1);
  op.force = true;
  EXPECT_THAT(PurgeAll(op).purged, ElementsAre(gone_too.id));
  EXPECT_THAT(Get(gone_too), FailsWith(Reason::kRecordNotFound));
  EXPECT_THAT(Get(kept_too), Succeeds());
}

TEST_P(PurgeTest, OfANamespaceWhatIsOlder) {
  const ReserveOp old = Add("payments", "z", "old");
  const ReserveOp other = Add("orders", "z", "old");
  Advance(absl::Minutes(1));
  const absl::Time before = Now();
  const ReserveOp young = Add("payments", "a", "young");
  PurgeOp op;
  op.name_space = "payments";
  op.created_before = before;
  op.limit = 1;
  op.note = Note();
  EXPECT_THAT(PurgeAll(op).purged, ElementsAre(old.id));
  EXPECT_THAT(Get(old), FailsWith(Reason::kRecordNotFound));
  EXPECT_THAT(Get(young), Succeeds());
  EXPECT_THAT(Get(other), Succeeds());
}

TEST_P(PurgeTest, OfAScopeOnlyWithForceWhatMayRunTwice) {
  const Case unknown = Make(Situation::kUnknown);
  const Case live = Make(Situation::kLive);
  const Case completed = Make(Situation::kCompleted);
  PurgeOp op;
  op.name_space = "payments";
  op.scope = "tenant-1";
  op.limit = 2;
  op.note = Note();
  PurgeStep done = PurgeAll(op);
  EXPECT_THAT(done.purged, ElementsAre(completed.op.id));
  EXPECT_EQ(done.refused, 2);
  EXPECT_THAT(Get(unknown.op), Succeeds());
  op.force = true;
  done = PurgeAll(op);
  EXPECT_THAT(done.purged, SizeIs(2));
  EXPECT_EQ(done.refused, 0);
  EXPECT_THAT(Get(live.op), FailsWith(Reason::kRecordNotFound));
  EXPECT_THAT(Audit(), SizeIs(3));
}

// A tombstone stays as long as the longer of the two.
TEST_P(PurgeTest, ATombstoneIsNeverShortened) {
  ReserveOp op = OpFor("kept");
  op.retention = absl::Hours(1);
  op.tombstone = absl::Hours(10);
  ASSERT_THAT(Complete(op, MustReserve(op).token), Succeeds());
  PurgeOp purge;
  purge.name_space = "payments";
  purge.key = op.key;
  purge.tombstone = absl::Hours(2);
  purge.note = Note();
  ASSERT_THAT(store().Purge(purge), Succeeds());
  Advance(absl::Hours(11) - absl::Microseconds(1));
  Expect<Expired>(Reserve(op));
  Advance(absl::Microseconds(1));
  MustReserve(op);
}

// By another clock the end that the purge gave the record has not come yet.
TEST_P(PurgeTest, ATombstoneHoldsBehindAClockThatStepsBack) {
  ReserveOp op = OpFor("purged");
  const Uuid token = MustReserve(op).token;
  PurgeOp purge;
  purge.name_space = "payments";
  purge.key = op.key;
  purge.tombstone = absl::Hours(2);
  purge.force = true;
  purge.note = Note();
  ASSERT_THAT(store().Purge(purge), Succeeds());
  Advance(-absl::Seconds(1));
  Expect<Expired>(Reserve(op));
  EXPECT_THAT(Get(op), FailsWith(Reason::kRecordNotFound));
  ListOp list;
  list.name_space = "payments";
  EXPECT_THAT(store().List(list)->records, IsEmpty());
  EXPECT_THAT(store().Purge(purge), FailsWith(Reason::kRecordNotFound));
  EXPECT_THAT(Release(op, token), FailsWith(Reason::kReservationLost));
  const auto late = Complete(op, token);
  EXPECT_THAT(late, FailsWith(Reason::kReservationLost));
  EXPECT_THAT(Extend(op, token, absl::Minutes(1)), FailsWith(Reason::kReservationLost));
  Advance(absl::Seconds(1));
  EXPECT_EQ(Complete(op, token).status(), late.status()) << "for the same cause";
}

// Also what is forgotten, and tombstones: nothing of the tenant stays.
TEST_P(PurgeTest, AScopeLosesItsForgottenRecordsToo) {
  const Case forgotten = Make(Situation::kForgotten);
  const Case tombstone = Make(Situation::kTombstone);
  PurgeOp op;
  op.name_space = "payments";
  op.scope = "tenant-1";
  op.note = Note();
  EXPECT_THAT(PurgeAll(op).purged, SizeIs(2));
  EXPECT_EQ(MustReserve(tombstone.op).attempt, 1u);
}

TEST_P(PurgeTest, ACheckpointIsGoneWithItsRecord) {
  ReserveOp op = OpFor("with-a-checkpoint");
  const Uuid token = MustReserve(op).token;
  ASSERT_THAT(Extend(op, token, absl::Minutes(1), "half"), Succeeds());
  PurgeOp purge;
  purge.name_space = "payments";
  purge.key = op.key;
  purge.force = true;
  purge.note = Note();
  ASSERT_THAT(store().Purge(purge), Succeeds());
  EXPECT_EQ(MustReserve(op).checkpoint, "");
}

}  // namespace
}  // namespace idempotency::internal
