#include "core/log_throttle.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "core/testing/manual_clock.h"

namespace idempotency::internal {
namespace {

TEST(LogThrottleTest, LetsOneASecondThroughAndCountsTheOthers) {
  ManualClock clock;
  LogThrottle throttle(clock);
  EXPECT_EQ(throttle.Admit(), 0);
  EXPECT_EQ(throttle.Admit(), std::nullopt);
  clock.Advance(absl::Milliseconds(999));
  EXPECT_EQ(throttle.Admit(), std::nullopt);
  clock.Advance(absl::Milliseconds(1));
  EXPECT_EQ(throttle.Admit(), 2);
  EXPECT_EQ(throttle.Admit(), std::nullopt);
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(throttle.Admit(), 1);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(throttle.Admit(), 0);
}

}  // namespace
}  // namespace idempotency::internal
