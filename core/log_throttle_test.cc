#include "core/log_throttle.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace idempotency::internal {
namespace {

class FakeClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch(); }
  std::chrono::steady_clock::time_point Monotonic() const override { return monotonic; }

  std::chrono::steady_clock::time_point monotonic;
};

TEST(LogThrottleTest, LetsOneASecondThroughAndCountsTheOthers) {
  FakeClock clock;
  LogThrottle throttle(clock);
  EXPECT_EQ(throttle.Admit(), 0);
  EXPECT_EQ(throttle.Admit(), std::nullopt);
  clock.monotonic += std::chrono::milliseconds(999);
  EXPECT_EQ(throttle.Admit(), std::nullopt);
  clock.monotonic += std::chrono::milliseconds(1);
  EXPECT_EQ(throttle.Admit(), 2);
  EXPECT_EQ(throttle.Admit(), std::nullopt);
  clock.monotonic += std::chrono::seconds(5);
  EXPECT_EQ(throttle.Admit(), 1);
  clock.monotonic += std::chrono::seconds(1);
  EXPECT_EQ(throttle.Admit(), 0);
}

}  // namespace
}  // namespace idempotency::internal
