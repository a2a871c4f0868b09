#include "core/clock.h"

#include <gtest/gtest.h>

#include "absl/time/clock.h"

namespace idempotency::internal {
namespace {

TEST(SystemClockTest, ReturnsTheTimeOfTheProcess) {
  const absl::Time before = absl::Now();
  const absl::Time now = Clock::System().Now();
  EXPECT_LE(before, now);
  EXPECT_LE(now, absl::Now());
}

TEST(SystemClockTest, MonotonicTimeNeverGoesBack) {
  const auto first = Clock::System().Monotonic();
  EXPECT_GE(Clock::System().Monotonic(), first);
}

}  // namespace
}  // namespace idempotency::internal
