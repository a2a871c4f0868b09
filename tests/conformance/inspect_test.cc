#include "tests/conformance/store_fixture.h"

namespace idempotency {
namespace {

class InspectTest : public StoreTest {
 protected:
  StoreGauges Gauges() {
    const absl::StatusOr<StoreGauges> gauges = store().Inspect();
    EXPECT_THAT(gauges, Succeeds());
    return gauges.value_or(StoreGauges());
  }
};
IDEMPOTENCY_FOR_EVERY_STORE(InspectTest);

TEST_P(InspectTest, AnEmptyStoreHasNothingToTell) {
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
}  // namespace idempotency
