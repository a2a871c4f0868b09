#include <string>

#include "grpc_idempotency/limits.h"
#include "tests/conformance/store_fixture.h"

namespace idempotency::internal {
namespace {

constexpr absl::Duration kLife = absl::Hours(1);

class UnknownLifeTest : public StoreTest {
 protected:
  // A whole pass over a namespace, that of OpFor() by default, `limit` records at a time.
  std::int64_t EndUnknown(int limit = 100,
                          const std::string& name_space = OpFor("x").key.name_space) {
    EndUnknownOp op;
    op.name_space = name_space;
    op.life = kLife;
    op.limit = limit;
    std::int64_t ended = 0;
    do {
      const absl::StatusOr<EndUnknownStep> step = store().EndUnknown(op);
      EXPECT_THAT(step, Succeeds());
      if (!step.ok()) return -1;
      EXPECT_LE(step->visited, limit);
      ended += step->ended;
      op.after = step->next;
    } while (op.after);
    return ended;
  }
  // Released now with an unknown outcome; the token.
  Uuid MakeUnknown(const ReserveOp& op) {
    const Uuid token = MustReserve(op).token;
    EXPECT_THAT(Release(op, token, /*outcome_unknown=*/true), Succeeds());
    return token;
  }
};
IDEMPOTENCY_FOR_EVERY_STORE(UnknownLifeTest);

TEST_P(UnknownLifeTest, ItsEndLeavesATombstoneForTheRestOfTheRetention) {
  ReserveOp op = OpFor("charge");
  op.retention = absl::Hours(24);
  const Uuid token = MakeUnknown(op);
  Advance(kLife - absl::Microseconds(1));
  EXPECT_EQ(EndUnknown(), 0);
  Expect<OutcomeUnknown>(Reserve(op));
  Advance(absl::Microseconds(1));
  EXPECT_EQ(EndUnknown(), 1);
  EXPECT_EQ(EndUnknown(), 0);
  Expect<Expired>(Reserve(op));
  EXPECT_THAT(Complete(op, token), FailsWith(Reason::kReservationLost));
  EXPECT_THAT(Extend(op, token, absl::Seconds(30)), FailsWith(Reason::kReservationLost));
  EXPECT_THAT(Get(op), FailsWith(Reason::kRecordNotFound));
  // Sweeps do not free it.
  Advance(absl::Hours(23) - absl::Microseconds(1));
  SweepAll();
  Expect<Expired>(Reserve(op));
  Advance(absl::Microseconds(1));
  EXPECT_EQ(MustReserve(op).attempt, 1u);
}

// UNKNOWN outlives the retention; then its key is refused for as long again.
TEST_P(UnknownLifeTest, AfterTheRetentionTheKeyIsNotFreeEither) {
  ReserveOp op = OpFor("charge");
  op.retention = absl::Minutes(10);
  MakeUnknown(op);
  Advance(absl::Hours(2));
  EXPECT_EQ(EndUnknown(), 1);
  Expect<Expired>(Reserve(op));
  Advance(absl::Minutes(10) - absl::Microseconds(1));
  SweepAll();
  Expect<Expired>(Reserve(op));
}

TEST_P(UnknownLifeTest, ALongerTombstoneStays) {
  ReserveOp op = OpFor("charge");
  op.retention = absl::Hours(2);
  op.tombstone = absl::Hours(10);
  MakeUnknown(op);
  Advance(kLife);
  EXPECT_EQ(EndUnknown(), 1);
  Advance(absl::Hours(11) - absl::Microseconds(1));
  Expect<Expired>(Reserve(op));
}

TEST_P(UnknownLifeTest, CountsFromTheEndOfTheLease) {
  ReserveOp op = OpFor("lapsed");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  op.lease = absl::Minutes(1);
  MustReserve(op);
  Advance(kLife);
  SweepAll();
  EXPECT_EQ(EndUnknown(), 0);
  Advance(absl::Minutes(1));
  EXPECT_EQ(EndUnknown(), 1);
}

TEST_P(UnknownLifeTest, EndsNothingElse) {
  MustReserve(OpFor("reserved"));
  const ReserveOp completed = OpFor("completed");
  ASSERT_THAT(Complete(completed, MustReserve(completed).token), Succeeds());
  ReserveOp recovering = OpFor("recovering");
  recovering.lease = absl::Hours(1);
  MakeUnknown(recovering);
  ReserveOp elsewhere = OpFor("elsewhere");
  elsewhere.key.name_space += "-2";
  elsewhere.id = RecordIdFor(elsewhere.key);
  MakeUnknown(elsewhere);
  Advance(kLife);
  recovering.recover = true;
  EXPECT_TRUE(Expect<Reserved>(Reserve(recovering)).recovering);
  EXPECT_EQ(EndUnknown(), 0);
  Expect<Replay>(Reserve(completed));
  Expect<OutcomeUnknown>(Reserve(elsewhere));
}

TEST_P(UnknownLifeTest, EndsNothingOfANamespaceWithTheSameBeginningOfItsHash) {
  const auto [one, other] = NamesOfOneHash();
  ReserveOp kept = OpFor("charge");
  kept.key.name_space = other;
  kept.id = RecordIdFor(kept.key);
  MakeUnknown(kept);
  Advance(kLife);
  EXPECT_EQ(EndUnknown(/*limit=*/100, one), 0);
  Expect<OutcomeUnknown>(Reserve(kept));
  EXPECT_EQ(EndUnknown(/*limit=*/100, other), 1);
}

TEST_P(UnknownLifeTest, StepByStep) {
  for (int i = 0; i < 7; ++i) MakeUnknown(OpFor("old-" + std::to_string(i)));
  Advance(kLife);
  for (int i = 0; i < 5; ++i) MakeUnknown(OpFor("new-" + std::to_string(i)));
  EXPECT_EQ(EndUnknown(/*limit=*/2), 7);
  for (int i = 0; i < 5; ++i) Expect<OutcomeUnknown>(Reserve(OpFor("new-" + std::to_string(i))));
}

}  // namespace
}  // namespace idempotency::internal
