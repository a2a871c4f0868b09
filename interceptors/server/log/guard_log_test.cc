#include "interceptors/server/log/guard_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/testing/manual_clock.h"
#include "core/utf8.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class GuardLogTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  std::vector<std::string> lines_;
  std::vector<LogSeverity> severities_;
  GuardLog log_{[this](LogSeverity severity, std::string_view line) {
                  severities_.push_back(severity);
                  lines_.emplace_back(line);
                },
                clock_};
};

TEST_F(GuardLogTest, OneLineASecondForEachEventWithACountOfTheRest) {
  for (int i = 0; i < 20'000; ++i) log_.Warn(LogEvent::kKeyReused, "reused, record ", i);
  EXPECT_THAT(lines_, ElementsAre("reused, record 0"));
  clock_.Advance(absl::Milliseconds(999));
  log_.Warn(LogEvent::kKeyReused, "reused, record ", 7);
  EXPECT_THAT(lines_, SizeIs(1));
  clock_.Advance(absl::Milliseconds(1));
  log_.Warn(LogEvent::kKeyReused, "reused, record ", 8);
  EXPECT_EQ(lines_.back(), "reused, record 8 (20000 more were suppressed)");
  clock_.Advance(absl::Seconds(1));
  log_.Warn(LogEvent::kKeyReused, "reused, record ", 9);
  EXPECT_EQ(lines_.back(), "reused, record 9");
}

TEST_F(GuardLogTest, AFloodOfOneEventOrMethodHidesNoOther) {
  const auto method = log_.ForMethod();
  log_.Warn(LogEvent::kKeyReused, "a");
  log_.Warn(LogEvent::kKeyReused, "a");
  log_.Error(LogEvent::kNotRecorded, "b");
  method->Warn(LogEvent::kKeyReused, "c");
  method->Warn(LogEvent::kKeyReused, "c");
  EXPECT_THAT(lines_, ElementsAre("a", "b", "c"));
}

TEST_F(GuardLogTest, ASinkForAnEventIsThrottledWithItsLines) {
  const auto method = log_.ForMethod();
  const LogSink sink = GuardLog::SinkFor(method, LogEvent::kLedgerRowNotWritten);
  sink(LogSeverity::kWarning, "a");
  sink(LogSeverity::kWarning, "b");
  method->Warn(LogEvent::kLedgerRowNotWritten, "c");
  method->Warn(LogEvent::kKeyReused, "d");
  EXPECT_THAT(lines_, ElementsAre("a", "d"));
}

TEST_F(GuardLogTest, SeveritiesArrive) {
  log_.Info(LogEvent::kRecovered, "a");
  log_.Warn(LogEvent::kLateGrant, "b");
  log_.Error(LogEvent::kNotRecorded, "c");
  log_.Once(LogSeverity::kInfo, "d");
  log_.Once(LogSeverity::kInfo, "e");
  EXPECT_THAT(severities_,
              ElementsAre(LogSeverity::kInfo, LogSeverity::kWarning, LogSeverity::kError,
                          LogSeverity::kInfo, LogSeverity::kInfo));
}

TEST_F(GuardLogTest, NothingForgesALine) {
  log_.Error(LogEvent::kApplicationThrew, "threw: a\nerror: forged\r\x1b[2J", "\xc2\x85", "\xff|");
  EXPECT_THAT(lines_, ElementsAre("threw: a error: forged  [2J  ?|"));
  log_.Error(LogEvent::kLoaderFailed, std::string(100'000, 'x'));
  EXPECT_EQ(lines_.back().size(), 2048U);
  EXPECT_TRUE(IsUtf8WithoutControls(lines_.back()));
}

TEST_F(GuardLogTest, ASinkThatThrowsIsIgnored) {
  GuardLog log([](LogSeverity, std::string_view) { throw std::runtime_error("full"); }, clock_);
  log.Error(LogEvent::kNotRecorded, "lost");
}

}  // namespace
}  // namespace idempotency::internal
