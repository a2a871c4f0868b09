#include "core/application_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/utf8.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

class ApplicationLogTest : public ::testing::Test {
 protected:
  std::vector<std::pair<LogSeverity, std::string>> lines_;
  const ApplicationLog log_{
      [this](LogSeverity severity, std::string_view line) { lines_.emplace_back(severity, line); }};
};

TEST_F(ApplicationLogTest, UsesTheApplicationsFunction) {
  log_.Write(LogSeverity::kInfo, "one");
  const ApplicationLog copy = log_;
  copy.Write(LogSeverity::kError, "two", " and its end");
  EXPECT_THAT(lines_, ElementsAre(Pair(LogSeverity::kInfo, "one"),
                                  Pair(LogSeverity::kError, "two and its end")));
}

TEST_F(ApplicationLogTest, IsOneLineOfTextForAnyInput) {
  log_.Write(LogSeverity::kWarning, "a\nb\x1b[2J\xff" + std::string(10'000, 'c'), " (end)");
  ASSERT_EQ(lines_.size(), 1u);
  const std::string& line = lines_[0].second;
  EXPECT_TRUE(IsUtf8WithoutControls(line));
  EXPECT_EQ(line.find("a b [2J"), 0u) << line.substr(0, 20);
  EXPECT_LE(line.size(), 2048 + 6u);
  EXPECT_EQ(line.substr(line.size() - 6), " (end)");
}

TEST_F(ApplicationLogTest, ALoggerThatThrowsIsIgnored) {
  const ApplicationLog log([](LogSeverity, std::string_view) { throw std::runtime_error("full"); });
  EXPECT_NO_THROW(log.Write(LogSeverity::kInfo, "line"));
}

}  // namespace
}  // namespace idempotency::internal
