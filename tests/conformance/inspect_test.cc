#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/conformance/store_fixture.h"

namespace idempotency::internal {
namespace {

class InspectTest : public StoreTest {
 protected:
  StoreGauges Gauges() {
    if (GetParam().gauges_lag_because) SweepAll();
    const absl::StatusOr<StoreGauges> gauges = store().Inspect();
    EXPECT_THAT(gauges, Succeeds());
    return gauges.value_or(StoreGauges());
  }
};
IDEMPOTENCY_FOR_EVERY_STORE(InspectTest);

TEST_P(InspectTest, AnEmptyStoreHasZeroGauges) {
  EXPECT_EQ(Gauges().oldest_reserved_age, absl::ZeroDuration());
  EXPECT_EQ(Gauges().unknown_records, 0);
}

TEST_P(InspectTest, TheAgeIsThatOfTheOldestReservedRecord) {
  const ReserveOp oldest = OpFor("oldest");
  const Uuid token = MustReserve(oldest).token;
  Advance(absl::Seconds(10));
  const ReserveOp younger = OpFor("younger");
  const Uuid younger_token = MustReserve(younger).token;
  Advance(absl::Seconds(5));
  EXPECT_EQ(Gauges().oldest_reserved_age, absl::Seconds(15));
  ASSERT_THAT(Complete(oldest, token), Succeeds());
  EXPECT_EQ(Gauges().oldest_reserved_age, absl::Seconds(5));
  ASSERT_THAT(Release(younger, younger_token), Succeeds());
  EXPECT_EQ(Gauges().oldest_reserved_age, absl::ZeroDuration());
}

// No attempt works on it, and the only remedy is another call.
TEST_P(InspectTest, AReservationWhoseLeaseIsOverIsNotOpen) {
  const ReserveOp op = OpFor("abandoned");
  const Uuid token = MustReserve(op).token;
  Advance(op.lease - absl::Seconds(1));
  EXPECT_EQ(Gauges().oldest_reserved_age, op.lease - absl::Seconds(1));
  Advance(absl::Seconds(1));
  EXPECT_EQ(Gauges().oldest_reserved_age, absl::ZeroDuration());
  ASSERT_THAT(Extend(op, token, absl::Minutes(5)), Succeeds());
  EXPECT_EQ(Gauges().oldest_reserved_age, op.lease);
  // The sweep, too, distinguishes the two.
  Advance(absl::Minutes(2));
  SweepAll();
  EXPECT_EQ(Gauges().oldest_reserved_age, op.lease + absl::Minutes(2));
  Advance(absl::Minutes(5));
  SweepAll();
  EXPECT_EQ(Gauges().oldest_reserved_age, absl::ZeroDuration());
}

TEST_P(InspectTest, UnknownRecordsAreCountedUpToALimit) {
  constexpr int kBatch = 250;
  for (int done = 0; done <= StoreGauges::kMaxCountedUnknown; done += kBatch) {
    std::vector<ReserveOp> ops;
    for (int i = 0; i < kBatch; ++i) ops.push_back(OpFor(absl::StrCat("key-", done + i)));
    std::vector<ReleaseOp> releases;
    for (const auto& verdict : store().Reserve(ops)) {
      const ReserveOp& op = ops[releases.size()];
      releases.push_back({op.key, op.id, Expect<Reserved>(verdict).token, "", true});
    }
    for (const absl::Status& released : store().Release(releases)) {
      EXPECT_THAT(released, Succeeds());
    }
    if (done == 0) {
      EXPECT_EQ(Gauges().unknown_records, kBatch);
    }
  }
  EXPECT_EQ(Gauges().unknown_records, StoreGauges::kMaxCountedUnknown);
}

TEST_P(InspectTest, UnknownRecordsAreCounted) {
  for (const char* key : {"one", "two"}) {
    const ReserveOp op = OpFor(key);
    ASSERT_THAT(Release(op, MustReserve(op).token, /*outcome_unknown=*/true), Succeeds());
  }
  EXPECT_EQ(Gauges().unknown_records, 2);
  ReserveOp op = OpFor("one");
  op.recover = true;
  MustReserve(op);
  EXPECT_EQ(Gauges().unknown_records, 1);
}

}  // namespace
}  // namespace idempotency::internal
