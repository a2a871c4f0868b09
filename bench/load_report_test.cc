// Scripts read a report with a JSON parser, also after a failure with any text.
#include "bench/load_report.h"

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace idempotency::internal::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

google::protobuf::Struct Parse(const std::string& json) {
  google::protobuf::Struct report;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &report);
  EXPECT_TRUE(status.ok()) << json << ": " << status.ToString();
  return report;
}

std::string FirstFailure(const std::string& text) {
  LoadReport report;
  report.Failed(absl::UnavailableError(text));
  const std::string json = report.ToJson();
  // protobuf's parser accepts more than RFC 8259 does: \' and control characters as they are.
  EXPECT_THAT(json, Not(HasSubstr("\\'")));
  for (const char c : json) EXPECT_GE(static_cast<unsigned char>(c), 0x20U) << json;
  return Parse(json).fields().at("first_failure").string_value();
}

TEST(LoadReport, AFailureKeepsItsText) {
  for (const std::string text : {
           "the server's certificate",
           R"(a "quoted" \ path)",
           "two\nlines\r\n\tand a tab",
           "\x01 \x1b[31m \x7f \b\f",
           "Z\xC3\xBCrich \xE2\x82\xAC \xF0\x9F\x8E\x89",
       }) {
    EXPECT_EQ(FirstFailure(text), "UNAVAILABLE: " + text);
  }
  EXPECT_EQ(FirstFailure(std::string("a\0b", 3)), std::string("UNAVAILABLE: a\0b", 16));
}

TEST(LoadReport, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(FirstFailure("a\xFFz"), "UNAVAILABLE: a?z");
}

TEST(LoadReport, TheNumbersOfARun) {
  LoadReport report;
  report.set_measured_time(absl::Seconds(2));
  for (int i = 0; i < 4; ++i) report.Measured(absl::Milliseconds(1));
  report.Ended();
  report.Refused();
  report.Shed();
  const auto fields = Parse(report.ToJson()).fields();
  EXPECT_EQ(fields.at("seconds").number_value(), 2);
  EXPECT_EQ(fields.at("measured").number_value(), 4);
  EXPECT_EQ(fields.at("per_second").number_value(), 2);
  EXPECT_EQ(fields.at("ended").number_value(), 1);
  EXPECT_EQ(fields.at("refused").number_value(), 1);
  EXPECT_EQ(fields.at("shed").number_value(), 1);
  EXPECT_EQ(fields.at("failures").number_value(), 0);
  EXPECT_EQ(fields.at("first_failure").string_value(), "");
}

}  // namespace
}  // namespace idempotency::internal::bench
