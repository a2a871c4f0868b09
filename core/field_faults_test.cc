#include "core/field_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace idempotency::internal {
namespace {

using ::testing::EndsWith;
using ::testing::SizeIs;

TEST(FieldFaultsTest, NoFaultIsOk) {
  FieldFaults faults;
  faults.Add(absl::OkStatus());
  EXPECT_TRUE(faults.empty());
  EXPECT_TRUE(faults.status().ok());
}

TEST(FieldFaultsTest, NamesEveryFaultInItsOrder) {
  FieldFaults faults;
  faults.Add("lease", "is too long");
  faults.Add(InvalidField("labels", "are too many"));
  const absl::Status status = faults.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "lease: is too long; labels: are too many");
  EXPECT_EQ(ReasonOf(status), Reason::kRequestInvalid);
  const ErrorDetails details = DetailsOf(status);
  ASSERT_THAT(details.violations, SizeIs(2));
  EXPECT_EQ(details.violations[0].field, "lease");
  EXPECT_EQ(details.violations[1].description, "are too many");
}

TEST(FieldFaultsTest, AFaultOfTheKeyIsTheReason) {
  ErrorDetails of_key;
  of_key.violations.push_back({"record_key.key", "an idempotency key is required"});
  FieldFaults faults;
  faults.Add("record_key.scope", "is empty");
  faults.Add(MakeError(Reason::kKeyMissing, "record_key.key: is needed", of_key));
  faults.Add("lease", "is too long");
  EXPECT_EQ(ReasonOf(faults.status()), Reason::kKeyMissing);
  EXPECT_THAT(DetailsOf(faults.status()).violations, SizeIs(3));
}

TEST(FieldFaultsTest, CountsWhatItDoesNotName) {
  FieldFaults faults;
  for (std::size_t i = 0; i < FieldFaults::kMaxNamed + 3; ++i) {
    faults.Add(std::to_string(i), "is wrong");
  }
  const absl::Status status = faults.status();
  EXPECT_THAT(DetailsOf(status).violations, SizeIs(FieldFaults::kMaxNamed));
  EXPECT_THAT(std::string(status.message()), EndsWith("; and 3 more faults"));
}

TEST(FieldFaultsTest, TheMessageStaysShortAndTheViolationsNameTheRest) {
  const std::string long_text(100, 'x');
  FieldFaults faults;
  for (int i = 0; i < 8; ++i) faults.Add(std::to_string(i), long_text);
  faults.Add("short", "fits, but is not the first that is left out");
  const absl::Status status = faults.status();
  EXPECT_THAT(DetailsOf(status).violations, SizeIs(9));
  EXPECT_LE(status.message().size(), FieldFaults::kMaxMessageBytes + 30);
  EXPECT_THAT(std::string(status.message()), EndsWith("; and 6 more faults"));
}

TEST(FieldFaultsTest, OneFaultIsAlwaysInTheMessage) {
  const std::string long_text(FieldFaults::kMaxMessageBytes, 'x');
  FieldFaults faults;
  faults.Add("lease", long_text);
  EXPECT_EQ(faults.status().message(), "lease: " + long_text);
}

}  // namespace
}  // namespace idempotency::internal
