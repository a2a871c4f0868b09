#include "client/retries/decorrelated_backoff.h"

#include <gtest/gtest.h>

#include <vector>

namespace idempotency::internal {
namespace {

constexpr absl::Duration kNoFloor = absl::ZeroDuration();

TEST(DecorrelatedBackoffTest, EachPauseLiesBetweenTheShortestAndThreeTimesTheLast) {
  for (int caller = 0; caller < 200; ++caller) {
    DecorrelatedBackoff backoff(absl::Milliseconds(100), absl::Seconds(10));
    absl::Duration last = absl::Milliseconds(100);
    for (int i = 0; i < 30; ++i) {
      const absl::Duration pause = backoff.Next(kNoFloor);
      EXPECT_GE(pause, absl::Milliseconds(100));
      EXPECT_LE(pause, std::min(last * 3, absl::Seconds(10)));
      last = pause;
    }
  }
}

// With plain exponential backoff, the fifth pauses of all callers are nearly equal.
TEST(DecorrelatedBackoffTest, CallersThatFailedTogetherDriftApart) {
  int short_ones = 0;
  int long_ones = 0;
  for (int caller = 0; caller < 500; ++caller) {
    DecorrelatedBackoff backoff(absl::Milliseconds(100), absl::Seconds(10));
    for (int i = 0; i < 7; ++i) backoff.Next(kNoFloor);
    const absl::Duration eighth = backoff.Next(kNoFloor);
    if (eighth < absl::Seconds(1)) ++short_ones;
    if (eighth > absl::Seconds(3)) ++long_ones;
  }
  EXPECT_GT(short_ones, 50);
  EXPECT_GT(long_ones, 50);
}

TEST(DecorrelatedBackoffTest, AFloorIsKeptWithAnEdgeThatIsNotSharp) {
  DecorrelatedBackoff backoff(absl::Milliseconds(100), absl::Seconds(10));
  const absl::Duration one = backoff.Next(absl::Seconds(30));
  const absl::Duration two = backoff.Next(absl::Seconds(30));
  for (const absl::Duration pause : {one, two}) {
    EXPECT_GE(pause, absl::Seconds(30));
    EXPECT_LE(pause, absl::Milliseconds(30'100));
  }
  EXPECT_NE(one, two);
}

TEST(DecorrelatedBackoffTest, AFloorIsForOnce) {
  DecorrelatedBackoff backoff(absl::Milliseconds(100), absl::Seconds(10));
  backoff.Next(absl::Seconds(30));
  EXPECT_LE(backoff.Next(kNoFloor), absl::Milliseconds(900));
}

TEST(DecorrelatedBackoffTest, StrangeBoundsAreNoBusyLoopAndNoPauseForEver) {
  DecorrelatedBackoff none(absl::ZeroDuration(), absl::ZeroDuration());
  EXPECT_GE(none.Next(kNoFloor), absl::Milliseconds(1));
  DecorrelatedBackoff endless(absl::Milliseconds(100), absl::InfiniteDuration());
  for (int i = 0; i < 200; ++i) EXPECT_LE(endless.Next(kNoFloor), absl::Hours(24 * 365));
}

}  // namespace
}  // namespace idempotency::internal
