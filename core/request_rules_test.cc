// The parts that are checked on their own. Whole requests, field by field, are
// covered where the service reads them: server/operation/wire_request_test.cc.
#include "core/request_rules.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

void ExpectRefused(const absl::Status& status, const std::string& field) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), Reason::kRequestInvalid) << status;
  const ErrorDetails details = DetailsOf(status);
  ASSERT_EQ(details.violations.size(), 1u);
  EXPECT_EQ(details.violations[0].field, field);
}

TEST(RequestRulesTest, LabelsAreBoundedTextAndNamedByTheirPlace) {
  EXPECT_TRUE(ValidateLabels({}).ok());
  EXPECT_TRUE(ValidateLabels({{"build", "7"}, {"empty", ""}, {"größe", "ß"}}).ok());
  EXPECT_TRUE(ValidateLabels({{std::string(limits::kMaxLabelKeyBytes, 'k'),
                               std::string(limits::kMaxLabelValueBytes, 'v')}})
                  .ok());
  std::map<std::string, std::string> many;
  for (std::size_t i = 0; i <= limits::kMaxLabels; ++i) many[std::to_string(i)] = "v";
  ExpectRefused(ValidateLabels(many), "labels");
  ExpectRefused(ValidateLabels({{"", "v"}}, "begin.labels"), "begin.labels");
  ExpectRefused(ValidateLabels({{"two\nlines", "v"}}), "labels");
  ExpectRefused(ValidateLabels({{"k", "two\nlines"}}), "labels");
  ExpectRefused(ValidateLabels({{"k", "\xff"}}), "labels");
  ExpectRefused(ValidateLabels({{std::string(limits::kMaxLabelKeyBytes + 1, 'k'), "v"}}), "labels");
  ExpectRefused(ValidateLabels({{"k", std::string(limits::kMaxLabelValueBytes + 1, 'v')}}),
                "labels");
}

TEST(RequestRulesTest, AReleaseReasonIsBoundedText) {
  EXPECT_TRUE(ValidateReleaseReason("").ok());
  EXPECT_TRUE(ValidateReleaseReason(std::string(limits::kMaxReleaseReasonBytes, 'r')).ok());
  ExpectRefused(ValidateReleaseReason(std::string(limits::kMaxReleaseReasonBytes + 1, 'r')),
                "reason");
  ExpectRefused(ValidateReleaseReason("two\nlines", "release.reason"), "release.reason");
  ExpectRefused(ValidateReleaseReason("\x80"), "reason");
}

TEST(RequestRulesTest, ACheckpointIsAnyBytesUpToItsLimit) {
  EXPECT_TRUE(ValidateCheckpoint(std::string(limits::kMaxCheckpointBytes, '\xff')).ok());
  EXPECT_TRUE(ValidateCheckpoint(std::string("\0IC\x02", 4)).ok());
  ExpectRefused(ValidateCheckpoint(std::string("\0IC\x01", 4)), "checkpoint");
  ExpectRefused(ValidateCheckpoint(std::string(limits::kMaxCheckpointBytes + 1, 'c')),
                "checkpoint");
}

TEST(RequestRulesTest, AParentsKeyIsNeverReportedAsTheCallsOwn) {
  EXPECT_TRUE(ValidateParent({"tills", "alice", "/till/Charge", "key"}).ok());
  ExpectRefused(ValidateParent({"tills", "alice", "/till/Charge", ""}), "parent.key");
  ExpectRefused(ValidateParent({"tills", "alice", "/till/Charge", "a b"}), "parent.key");
  ExpectRefused(ValidateParent({"tills", "\xff", "/till/Charge", "key"}), "parent.scope");
}

}  // namespace
}  // namespace idempotency::internal
