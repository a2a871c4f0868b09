#include "grpc_idempotency/idempotency_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<std::string> Parse(const std::vector<std::string_view>& values) {
  return ParseIdempotencyKey(values);
}

TEST(ParseIdempotencyKeyTest, BareKeys) {
  EXPECT_EQ(Parse({"order-17"}).value(), "order-17");
  EXPECT_EQ(Parse({"!#~\\;="}).value(), "!#~\\;=");
  EXPECT_EQ(Parse({std::string(limits::kMaxKeyBytes, 'k')}).value().size(), limits::kMaxKeyBytes);
}

TEST(ParseIdempotencyKeyTest, QuotedKeysAreUnescaped) {
  EXPECT_EQ(Parse({"\"order-17\""}).value(), "order-17");
  EXPECT_EQ(Parse({R"("a\"b\\c,d")"}).value(), R"(a"b\c,d)");
  // 255 is counted after unquoting.
  const std::string longest = "\"\\\\" + std::string(limits::kMaxKeyBytes - 1, 'k') + "\"";
  EXPECT_EQ(Parse({longest}).value().size(), limits::kMaxKeyBytes);
}

TEST(ParseIdempotencyKeyTest, UuidsAreLowered) {
  EXPECT_EQ(Parse({"017F22E2-79B0-7CC3-98C4-DC0C0C07398F"}).value(),
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
  EXPECT_EQ(Parse({"\"017F22E2-79B0-7CC3-98C4-DC0C0C07398F\""}).value(),
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
}

TEST(ParseIdempotencyKeyTest, NoValueIsMissing) {
  EXPECT_EQ(ReasonOf(Parse({}).status()), Reason::kKeyMissing);
}

TEST(ParseIdempotencyKeyTest, EqualValuesCountAsOne) {
  EXPECT_EQ(Parse({"order-17", "\"order-17\"", "order-17"}).value(), "order-17");
  EXPECT_EQ(ReasonOf(Parse({"order-17", "order-18"}).status()), Reason::kKeyInvalid);
  EXPECT_EQ(ReasonOf(Parse({"order-17", "order-17", ""}).status()), Reason::kKeyInvalid);
}

TEST(ParseIdempotencyKeyTest, InvalidKeysAreNeverQuotedBack) {
  for (const std::string& bad : {
           std::string(),
           std::string(R"("")"),
           std::string(R"(")"),
           std::string(R"("secret)"),
           std::string(R"("secret\)"),
           std::string(R"("secret\")"),
           std::string(R"("sec\ret")"),
           std::string(R"("secret"x)"),
           std::string(R"("secret";a=1)"),
           std::string(R"(secret")"),
           std::string("secret,secret"),
           std::string("secret key"),
           std::string(" secret"),
           std::string("\"secret key\""),
           std::string("secret\x7F"),
           std::string("secr\xC3\xA9t"),
           std::string("secret\0", 7),
           "secret" + std::string(limits::kMaxKeyBytes, 'k'),
       }) {
    const absl::Status status = Parse({bad}).status();
    EXPECT_EQ(ReasonOf(status), Reason::kKeyInvalid) << bad;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("sec")));
  }
}

absl::StatusOr<std::string> ParseBoth(const std::vector<std::string_view>& values,
                                      std::string_view field) {
  return ParseIdempotencyKey(values, {"request_id", field});
}

TEST(KeyInFieldTest, OneOfTheTwoIsEnough) {
  EXPECT_EQ(ParseBoth({}, "order-17").value(), "order-17");
  EXPECT_EQ(ParseBoth({"\"order-17\""}, "").value(), "order-17");
  EXPECT_EQ(ParseBoth({}, "017F22E2-79B0-7CC3-98C4-DC0C0C07398F").value(),
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
}

TEST(KeyInFieldTest, NeitherIsMissingAndBothAreNamed) {
  const absl::Status status = ParseBoth({}, "").status();
  EXPECT_EQ(ReasonOf(status), Reason::kKeyMissing);
  EXPECT_THAT(std::string(status.message()), HasSubstr("request_id"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("idempotency-key"));
}

TEST(KeyInFieldTest, BothMustBeTheSameKey) {
  EXPECT_EQ(ParseBoth({"order-17"}, "order-17").value(), "order-17");
  EXPECT_EQ(ParseBoth({"\"order-17\"", "order-17"}, "order-17").value(), "order-17");
  EXPECT_EQ(
      ParseBoth({"017f22e2-79b0-7cc3-98c4-dc0c0c07398f"}, "017F22E2-79B0-7CC3-98C4-DC0C0C07398F")
          .value(),
      "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
  const absl::Status status = ParseBoth({"order-17"}, "order-18").status();
  EXPECT_EQ(ReasonOf(status), Reason::kKeyInvalid);
  EXPECT_THAT(std::string(status.message()), HasSubstr("differ"));
  EXPECT_EQ(ReasonOf(ParseBoth({"order-17"}, "ORDER-17").status()), Reason::kKeyInvalid);
}

TEST(KeyInFieldTest, AWrongOneIsNotMadeUpForByTheOther) {
  EXPECT_EQ(ReasonOf(ParseBoth({""}, "order-17").status()), Reason::kKeyInvalid);
  EXPECT_EQ(ReasonOf(ParseBoth({"order-17"}, "order 17").status()), Reason::kKeyInvalid);
  EXPECT_EQ(ReasonOf(ParseBoth({"a", "b"}, "a").status()), Reason::kKeyInvalid);
}

TEST(KeyInFieldTest, TheFieldFollowsTheRulesOfBareKeys) {
  for (const std::string& bad :
       {std::string("\"secret\""), std::string("secret,secret"), std::string("secret\""),
        std::string("secret key"), std::string("secr\xC3\xA9t"), std::string("secret\0", 7),
        "secret" + std::string(limits::kMaxKeyBytes, 'k')}) {
    const absl::Status status = ParseBoth({}, bad).status();
    EXPECT_EQ(ReasonOf(status), Reason::kKeyInvalid) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("request_id: "));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  }
}

}  // namespace
}  // namespace idempotency::internal
