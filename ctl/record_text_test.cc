#include "ctl/record_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

TEST(RecordTextTest, TextOfCallersIsEscaped) {
  v1::Record record;
  record.mutable_record_key()->set_scope("\x1b[2Jscope");
  record.set_release_reason("\x1b[31m");
  (*record.mutable_labels())["a\n"] = "\x1b";
  record.mutable_parent()->set_key("\x1b");
  record.mutable_reply()->set_message("\x1b");
  record.mutable_reply()->set_body("\x1b");
  record.mutable_reply()->add_trailing_metadata()->set_value("\x1b");
  const std::string all =
      DescribeRecord(record, kNow) + DescribeReply(record) + RecordRow(record, kNow)[4];
  EXPECT_THAT(all, Not(HasSubstr("\x1b")));
  EXPECT_THAT(all, HasSubstr("\\u{1b}[2Jscope"));
}

TEST(RecordTextTest, LongBodiesAreCut) {
  v1::Record record;
  record.mutable_reply()->set_body(std::string(5000, 'x'));
  EXPECT_LT(DescribeReply(record).size(), 1200);
  EXPECT_THAT(DescribeReply(record), HasSubstr("3976 more bytes"));
}

}  // namespace
}  // namespace idempotency::internal
