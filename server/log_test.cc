#include "server/log.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "core/log_throttle.h"

namespace idempotency {
namespace {

TEST(LogTest, WritesPairs) {
  EXPECT_EQ(FormatLogLine("serving", {{"listen", "127.0.0.1:7411"}, {"connections", 4}}),
            "event=\"serving\" listen=127.0.0.1:7411 connections=4");
}

TEST(LogTest, QuotesWhatWouldBreakALine) {
  EXPECT_EQ(FormatLogLine("it \"failed\"", {{"a", "two words"},
                                            {"b", ""},
                                            {"c", "x=y"},
                                            {"d", "line\nevent=\"forged\""},
                                            {"e", "back\\slash"}}),
            "event=\"it \\\"failed\\\"\" a=\"two words\" b=\"\" c=\"x=y\" "
            "d=\"line\\nevent=\\\"forged\\\"\" e=\"back\\\\slash\"");
}

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
}  // namespace idempotency
