#include "server/console/overview.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <limits>

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(OverviewTest, ReadsTheMetrics) {
  prometheus::Registry registry;
  auto& verdicts = prometheus::BuildCounter().Name("idempotency_verdicts_total").Register(registry);
  verdicts.Add({{"verdict", "replay"}}).Increment(3);
  verdicts.Add({{"verdict", "reserved"}}).Increment(4);
  prometheus::BuildGauge().Name("idempotency_store_up").Register(registry).Add({}).Set(1);
  prometheus::BuildGauge().Name("idempotency_unknown_records").Register(registry).Add({}).Set(7);
  prometheus::BuildGauge()
      .Name("idempotency_oldest_reservation_age_seconds")
      .Register(registry)
      .Add({})
      .Set(2.5);
  prometheus::BuildGauge().Name("idempotency_sessions").Register(registry).Add({}).Set(5);
  prometheus::BuildGauge().Name("idempotency_waiters").Register(registry).Add({}).Set(6);

  console::v1::Overview overview;
  ReadMetrics(registry, overview);
  EXPECT_EQ(overview.verdicts().at("replay"), 3);
  EXPECT_EQ(overview.verdicts().at("reserved"), 4);
  EXPECT_TRUE(overview.store_up());
  EXPECT_EQ(overview.unknown_records(), 7);
  EXPECT_EQ(overview.oldest_reservation_age_seconds(), 2.5);
  EXPECT_EQ(overview.sessions(), 5);
  EXPECT_EQ(overview.waiters(), 6);
}

// JSON has no NaN.
TEST(OverviewTest, AGaugeThatIsNotKnownYetIsZero) {
  prometheus::Registry registry;
  prometheus::BuildGauge()
      .Name("idempotency_unknown_records")
      .Register(registry)
      .Add({})
      .Set(std::numeric_limits<double>::quiet_NaN());
  console::v1::Overview overview;
  ReadMetrics(registry, overview);
  EXPECT_EQ(overview.unknown_records(), 0);
}

// Each bucket alone, and the sum of all codes of Reserve, and of no other method.
TEST(OverviewTest, AddsTheHistogramsOfReserve) {
  prometheus::Registry registry;
  auto& family =
      prometheus::BuildHistogram().Name("idempotency_rpc_duration_seconds").Register(registry);
  const prometheus::Histogram::BucketBoundaries bounds = {0.001, 0.01};
  auto& ok = family.Add({{"method", "Reserve"}, {"code", "OK"}}, bounds);
  for (const double seconds : {0.0005, 0.0005, 0.005, 1.0}) ok.Observe(seconds);
  family.Add({{"method", "Reserve"}, {"code", "UNAVAILABLE"}}, bounds).Observe(0.005);
  family.Add({{"method", "Complete"}, {"code", "OK"}}, bounds).Observe(0.0005);

  console::v1::Overview overview;
  ReadMetrics(registry, overview);
  EXPECT_THAT(overview.latency().bounds_seconds(), ElementsAre(0.001, 0.01));
  EXPECT_THAT(overview.latency().counts(), ElementsAre(2, 2, 1));
}

TEST(OverviewTest, AnEmptyRegistryIsAnOverviewOfNothing) {
  console::v1::Overview overview;
  ReadMetrics(prometheus::Registry(), overview);
  EXPECT_THAT(overview.verdicts(), IsEmpty());
  EXPECT_FALSE(overview.store_up());
}

}  // namespace
}  // namespace idempotency::internal
