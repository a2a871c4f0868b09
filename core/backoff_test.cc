#include "core/backoff.h"

#include <random>
#include <set>

#include "gtest/gtest.h"

namespace idempotency::internal {
namespace {

constexpr absl::Duration kFirst = absl::Milliseconds(50);
constexpr absl::Duration kLongest = absl::Milliseconds(350);

absl::InsecureBitGen Seeded(int seed) { return absl::InsecureBitGen(std::seed_seq{seed}); }

void ExpectPauseWithin(absl::Duration bound, absl::Duration pause) {
  EXPECT_GE(pause, bound / 2);
  EXPECT_LE(pause, bound);
}

TEST(BackoffTest, ThePauseDoublesUpToTheLongest) {
  for (int seed = 0; seed < 100; ++seed) {
    Backoff backoff(kFirst, kLongest, Seeded(seed));
    for (const int factor : {1, 2, 4}) ExpectPauseWithin(kFirst * factor, backoff.Next());
    for (int i = 0; i < 100; ++i) ExpectPauseWithin(kLongest, backoff.Next());
  }
}

TEST(BackoffTest, ProcessesThatFailedTogetherReturnApart) {
  std::set<absl::Duration> pauses;
  for (int process = 0; process < 100; ++process) pauses.insert(Backoff(kFirst, kLongest).Next());
  EXPECT_GT(pauses.size(), 90U);
}

TEST(BackoffTest, ASeedDecidesThePauses) {
  Backoff one(kFirst, kLongest, Seeded(7));
  Backoff same(kFirst, kLongest, Seeded(7));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(one.Next(), same.Next());
}

TEST(BackoffTest, ASuccessBeginsItAgain) {
  Backoff backoff(kFirst, kLongest, Seeded(7));
  for (int i = 0; i < 10; ++i) backoff.Next();
  backoff.Reset();
  ExpectPauseWithin(kFirst, backoff.Next());
  ExpectPauseWithin(2 * kFirst, backoff.Next());
}

TEST(BackoffTest, TheLongestBoundsTheFirst) {
  Backoff backoff(kLongest, kFirst, Seeded(7));
  for (int i = 0; i < 10; ++i) ExpectPauseWithin(kFirst, backoff.Next());
}

}  // namespace
}  // namespace idempotency::internal
