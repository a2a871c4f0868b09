#include "server/observability/log.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

namespace idempotency::internal {
namespace {

TEST(LogTest, WritesPairs) {
  EXPECT_EQ(FormatLogLine(LogFormat::kText, "serving",
                          {{"listen", "127.0.0.1:7411"}, {"connections", 4}}),
            "event=\"serving\" listen=127.0.0.1:7411 connections=4");
}

TEST(LogTest, QuotesWhatWouldBreakALine) {
  EXPECT_EQ(FormatLogLine(LogFormat::kText, "it \"failed\"",
                          {{"a", "two words"},
                           {"b", ""},
                           {"c", "x=y"},
                           {"d", "line\nevent=\"forged\""},
                           {"e", "back\\slash"}}),
            "event=\"it \\\"failed\\\"\" a=\"two words\" b=\"\" c=\"x=y\" "
            "d=\"line\\nevent=\\\"forged\\\"\" e=\"back\\\\slash\"");
}

TEST(LogTest, WritesAnObject) {
  EXPECT_EQ(FormatLogLine(LogFormat::kJson, "serving", {{"listen", "[::1]:7411"}, {"streams", 4}}),
            R"("message":"serving","listen":"[::1]:7411","streams":"4")");
}

TEST(LogTest, NothingEndsAStringOfAnObject) {
  const std::string hostile = "\"}\n{\"message\":\"forged\", \\ \x1b[2J \xff \xe2\x80\xa8 \x7f end";
  const std::string line = absl::StrCat(
      "{", FormatLogLine(LogFormat::kJson, hostile, {{"field", hostile}, {"empty", ""}}), "}");
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
  google::protobuf::Struct parsed;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(line, &parsed).ok()) << line;
  std::string expected = hostile;
  expected[expected.find('\xff')] = '?';
  EXPECT_EQ(parsed.fields().size(), 3);
  EXPECT_EQ(parsed.fields().at("message").string_value(), expected);
  EXPECT_EQ(parsed.fields().at("field").string_value(), expected);
  EXPECT_EQ(parsed.fields().at("empty").string_value(), "");
}

}  // namespace
}  // namespace idempotency::internal
