#include "grpc_idempotency/deadline.h"

#include <gtest/gtest.h>

#include <limits>

#include "absl/time/clock.h"

namespace idempotency::internal {
namespace {

constexpr absl::Duration kYear = absl::Hours(24 * 365);
const SteadyTime kNow{std::chrono::hours(1000)};

TEST(DeadlineTest, ASumIsExactWhereTheClockCanCountIt) {
  EXPECT_EQ(After(kNow, absl::Nanoseconds(1)), kNow + std::chrono::nanoseconds(1));
  EXPECT_EQ(After(kNow, -absl::Seconds(2)), kNow - std::chrono::seconds(2));
  EXPECT_EQ(After(kNow, 100 * kYear), kNow + std::chrono::hours(24 * 365 * 100));
}

TEST(DeadlineTest, ASumThatTheClockCannotCountIsNoDeadline) {
  EXPECT_EQ(After(kNow, 300 * kYear), kNever);
  EXPECT_EQ(After(kNow, absl::InfiniteDuration()), kNever);
  EXPECT_EQ(After(kNever, absl::Seconds(30)), kNever);
  EXPECT_EQ(After(kNow, -absl::InfiniteDuration()), SteadyTime::min());
}

TEST(DeadlineTest, TheTimeThatIsLeftHasNoEndWithoutADeadline) {
  EXPECT_EQ(TimeUntil(kNow + std::chrono::seconds(3), kNow), absl::Seconds(3));
  EXPECT_EQ(TimeUntil(kNow - std::chrono::seconds(3), kNow), -absl::Seconds(3));
  EXPECT_EQ(TimeUntil(kNever, kNow), absl::InfiniteDuration());
  EXPECT_LT(TimeUntil(SteadyTime::min(), kNow), absl::ZeroDuration());
}

TEST(DeadlineTest, GrpcDeadlinesOfAnyLengthAreReadAsTheyAre) {
  for (const gpr_clock_type clock : {GPR_CLOCK_MONOTONIC, GPR_CLOCK_REALTIME}) {
    EXPECT_EQ(SteadyDeadline(gpr_inf_future(clock), kNow), kNever);
    EXPECT_EQ(SteadyDeadline(gpr_inf_future(clock)), kNever);
    EXPECT_LT(TimeUntil(gpr_inf_past(clock)), absl::ZeroDuration());
    gpr_timespec at = gpr_now(clock);
    // 2562047 hours: the limit of nanoseconds in 64 bits.
    at.tv_sec += 2562047LL * 3600;
    EXPECT_GT(TimeUntil(at), absl::Hours(2562046));
    EXPECT_GT(SteadyDeadline(at, kNow), kNow + std::chrono::hours(24 * 365 * 200));
    EXPECT_GT(SteadyDeadline(at), DeadlineIn(absl::Hours(24 * 365 * 200)));
    at.tv_sec = std::numeric_limits<std::int64_t>::max() - 1;
    EXPECT_EQ(SteadyDeadline(at, kNow), kNever);
    at = gpr_now(clock);
    at.tv_sec -= 5;
    EXPECT_LT(SteadyDeadline(at, kNow), kNow);
  }
}

TEST(DeadlineTest, ADeadlineInSomeTimeIsThatFarAway) {
  const SteadyTime before = std::chrono::steady_clock::now();
  const SteadyTime deadline = DeadlineIn(absl::Seconds(3));
  EXPECT_GE(deadline, before + std::chrono::seconds(3));
  EXPECT_LE(deadline, std::chrono::steady_clock::now() + std::chrono::seconds(3));
  EXPECT_EQ(DeadlineIn(absl::InfiniteDuration()), kNever);
  EXPECT_LT(DeadlineIn(-absl::Seconds(3)), before);
}

TEST(DeadlineTest, DeadlinesAreReadBackUnchanged) {
  EXPECT_EQ(TimeUntil(GrpcDeadlineIn(absl::InfiniteDuration())), absl::InfiniteDuration());
  EXPECT_GT(TimeUntil(GrpcDeadlineIn(1000 * kYear)), 200 * kYear);
  EXPECT_LE(TimeUntil(GrpcDeadlineIn(-absl::Seconds(1))), absl::ZeroDuration());
  const absl::Duration left = TimeUntil(GrpcDeadlineIn(absl::Hours(1)));
  EXPECT_GT(left, absl::Minutes(50));
  EXPECT_LE(left, absl::Hours(1));
}

}  // namespace
}  // namespace idempotency::internal
