#include "server/queue/record_schedule.h"

#include <gtest/gtest.h>

#include <chrono>

namespace idempotency::internal {
namespace {

using std::chrono::milliseconds;

constexpr SteadyTime kStart = SteadyTime(std::chrono::hours(1));
constexpr absl::Duration kFirst = absl::Milliseconds(20);
constexpr absl::Duration kLongest = absl::Milliseconds(50);

InFlight Running(std::uint32_t attempt, absl::Duration lease) { return {lease, attempt, false}; }

Record Read(RecordState state, std::uint32_t attempt) {
  Record record;
  record.state = state;
  record.attempt = attempt;
  return record;
}

TEST(RecordScheduleTest, PausesDoubleUpToTheLongest) {
  RecordSchedule schedule;
  schedule.FollowAttempt(Running(1, absl::Seconds(10)), kStart, kFirst);
  EXPECT_EQ(schedule.due(), kStart + milliseconds(20));
  schedule.ReadLater(kStart, 1.0, kLongest);
  EXPECT_EQ(schedule.due(), kStart + milliseconds(20));
  schedule.ReadLater(kStart, 1.0, kLongest);
  EXPECT_EQ(schedule.due(), kStart + milliseconds(40));
  schedule.ReadLater(kStart, 1.2, kLongest);
  EXPECT_EQ(schedule.due(), kStart + milliseconds(60));
}

TEST(RecordScheduleTest, AnotherAttemptBeginsWithTheFirstPause) {
  RecordSchedule schedule;
  schedule.FollowAttempt(Running(1, absl::Seconds(10)), kStart, kFirst);
  for (int i = 0; i < 3; ++i) schedule.ReadLater(kStart, 1.0, kLongest);
  schedule.FollowAttempt(Running(1, absl::Seconds(10)), kStart, kFirst);
  EXPECT_EQ(schedule.due(), kStart + milliseconds(50)) << "the same attempt";
  schedule.FollowAttempt(Running(2, absl::Seconds(10)), kStart, kFirst);
  EXPECT_EQ(schedule.due(), kStart + milliseconds(20));
}

TEST(RecordScheduleTest, TheEndOfTheLeaseIsDue) {
  RecordSchedule schedule;
  schedule.FollowAttempt(Running(1, absl::Milliseconds(5)), kStart, kFirst);
  EXPECT_EQ(schedule.due(), kStart + milliseconds(5));
  EXPECT_FALSE(schedule.LeaseIsOver(kStart + milliseconds(4)));
  EXPECT_TRUE(schedule.LeaseIsOver(kStart + milliseconds(5)));
  schedule.DelayTry();
  EXPECT_FALSE(schedule.LeaseIsOver(kStart + milliseconds(5)));
  EXPECT_EQ(schedule.due(), kStart + milliseconds(20));
}

TEST(RecordScheduleTest, AnExpiredLeaseIsNotQueriedAtOnce) {
  RecordSchedule schedule;
  schedule.FollowAttempt(Running(1, absl::ZeroDuration()), kStart, kFirst);
  EXPECT_EQ(schedule.due(), kStart + milliseconds(1));
}

TEST(RecordScheduleTest, ARecordIsHeldByTheKnownAttemptAlone) {
  RecordSchedule schedule;
  schedule.FollowAttempt(Running(2, absl::Seconds(1)), kStart, kFirst);
  EXPECT_TRUE(schedule.IsHeldIn(Read(RecordState::kReserved, 2)));
  EXPECT_FALSE(schedule.IsHeldIn(Read(RecordState::kReserved, 3)));
  EXPECT_FALSE(schedule.IsHeldIn(Read(RecordState::kReleased, 2)));
  schedule.FollowAttempt({absl::Seconds(1), 2, /*paused=*/true}, kStart, kFirst);
  EXPECT_TRUE(schedule.IsHeldIn(Read(RecordState::kReleased, 2)));
  EXPECT_FALSE(schedule.IsHeldIn(Read(RecordState::kReserved, 2)));
}

TEST(RecordScheduleTest, TheVerdictHasTheRestOfTheLease) {
  RecordSchedule schedule;
  schedule.FollowAttempt(Running(3, absl::Seconds(10)), kStart, kFirst);
  const InFlight verdict = schedule.StillInFlight(kStart + std::chrono::seconds(4));
  EXPECT_EQ(verdict.lease_remaining, absl::Seconds(6));
  EXPECT_EQ(verdict.attempt, 3u);
  EXPECT_FALSE(verdict.paused);
  EXPECT_EQ(schedule.StillInFlight(kStart + std::chrono::seconds(11)).lease_remaining,
            absl::ZeroDuration());
}

}  // namespace
}  // namespace idempotency::internal
