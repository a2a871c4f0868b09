#include "server/observability/log.h"

#include <gtest/gtest.h>

namespace idempotency::internal {
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

}  // namespace
}  // namespace idempotency::internal
