#include "explanation/record_story.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/wire_time.h"
#include "explanation/time_text.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

v1::Record SomeRecord(v1::RecordState state, absl::Duration lease_left) {
  v1::Record record;
  record.set_record_id("f61ef4a9-8093-f346-2889-705e6a369e58");
  record.mutable_record_key()->set_namespace_("payments");
  record.mutable_record_key()->set_scope("tenant-42");
  record.mutable_record_key()->set_operation("/payments.v1.Payments/Charge");
  record.mutable_record_key()->set_key("o-1");
  record.set_state(state);
  record.set_attempt(2);
  record.set_on_lease_expiry(v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
  ToWire(kNow - absl::Minutes(5), *record.mutable_created_at());
  ToWire(kNow + lease_left, *record.mutable_lease_expires_at());
  ToWire(kNow + absl::Hours(24), *record.mutable_expires_at());
  return record;
}

TEST(RecordStoryTest, ARunningAttempt) {
  const v1::Record record = SomeRecord(v1::RECORD_STATE_RESERVED, absl::Seconds(20));
  EXPECT_THAT(StoryOf(record, kNow), HasSubstr("Attempt 2 holds the reservation"));
  EXPECT_THAT(StoryOf(record, kNow), HasSubstr("(5m ago). 1 earlier attempts"));
  EXPECT_THAT(NextVerdict(record, kNow), StartsWith("in_flight"));
  EXPECT_THAT(Remedy(record, kNow), IsEmpty());
}

TEST(RecordStoryTest, ALostAttemptUnderEachPolicy) {
  v1::Record record = SomeRecord(v1::RECORD_STATE_RESERVED, -absl::Seconds(20));
  EXPECT_THAT(StoryOf(record, kNow), HasSubstr("was lost, or is very slow"));
  EXPECT_THAT(NextVerdict(record, kNow), StartsWith("outcome_unknown"));
  EXPECT_THAT(Remedy(record, kNow), HasSubstr("idempotencyctl resolve f61ef4a9-"));

  record.set_on_lease_expiry(v1::LEASE_EXPIRY_TAKE_OVER);
  EXPECT_THAT(NextVerdict(record, kNow), StartsWith("reserved, attempt 3"));
  EXPECT_THAT(Remedy(record, kNow), IsEmpty());
}

TEST(RecordStoryTest, ACompletedOne) {
  v1::Record record = SomeRecord(v1::RECORD_STATE_COMPLETED, -absl::Seconds(20));
  ToWire(kNow - absl::Minutes(4), *record.mutable_completed_at());
  record.mutable_reply()->set_code(3);
  EXPECT_THAT(StoryOf(record, kNow), HasSubstr("(4m ago) with status 3."));
  EXPECT_THAT(NextVerdict(record, kNow), StartsWith("replay: the stored reply"));
  EXPECT_THAT(Remedy(record, kNow), IsEmpty());
  ToWire(kNow, *record.mutable_reply_expires_at());
  EXPECT_THAT(NextVerdict(record, kNow), HasSubstr("REPLY_NOT_KEPT"));
  record.clear_reply_expires_at();
  record.mutable_reply()->set_content(v1::REPLY_CONTENT_STATUS_ONLY);
  EXPECT_THAT(NextVerdict(record, kNow), HasSubstr("REPLY_NOT_KEPT"));
}

TEST(RecordStoryTest, AReleasedOneRunsAgainAfterItsPause) {
  v1::Record record = SomeRecord(v1::RECORD_STATE_RELEASED, absl::Seconds(3));
  record.set_release_reason("the handler answered UNAVAILABLE");
  EXPECT_THAT(StoryOf(record, kNow), HasSubstr(": the handler answered UNAVAILABLE."));
  EXPECT_THAT(NextVerdict(record, kNow), StartsWith("in_flight"));
  EXPECT_THAT(NextVerdict(record, kNow + absl::Seconds(4)), StartsWith("reserved, attempt 3"));
}

TEST(RecordStoryTest, AnUnknownOneStaysPastItsEnd) {
  const v1::Record record = SomeRecord(v1::RECORD_STATE_UNKNOWN, -absl::Seconds(20));
  EXPECT_THAT(StoryOf(record, kNow), HasSubstr("without reporting its outcome"));
  EXPECT_THAT(NextVerdict(record, kNow + absl::Hours(48)), StartsWith("outcome_unknown"));
  EXPECT_THAT(Remedy(record, kNow), Not(IsEmpty()));
}

TEST(RecordStoryTest, AForgottenOne) {
  v1::Record record = SomeRecord(v1::RECORD_STATE_COMPLETED, -absl::Seconds(20));
  EXPECT_THAT(NextVerdict(record, kNow + absl::Hours(25)), StartsWith("reserved, attempt 1"));
  ToWire(kNow + absl::Hours(30), *record.mutable_tombstone_until());
  EXPECT_THAT(NextVerdict(record, kNow + absl::Hours(25)), StartsWith("expired"));
}

TEST(RecordStoryTest, TextOfCallersIsEscaped) {
  v1::Record record = SomeRecord(v1::RECORD_STATE_UNKNOWN, absl::ZeroDuration());
  record.set_release_reason("\x1b[31m");
  record.mutable_parent()->set_key("\x1b");
  const std::string all = StoryOf(record, kNow) + Remedy(record, kNow) + NextVerdict(record, kNow);
  EXPECT_THAT(all, Not(HasSubstr("\x1b")));
  EXPECT_THAT(all, HasSubstr("\\u{1b}[31m"));
}

TEST(TimeTextTest, SpansAreReadable) {
  EXPECT_EQ(SpanText(absl::Milliseconds(1500)), "1s");
  EXPECT_EQ(SpanText(absl::Seconds(119)), "119s");
  EXPECT_EQ(SpanText(absl::Minutes(3)), "3m");
  EXPECT_EQ(SpanText(-absl::Hours(5)), "5h");
  EXPECT_EQ(SpanText(absl::Hours(72)), "3d");
}

}  // namespace
}  // namespace idempotency::internal
