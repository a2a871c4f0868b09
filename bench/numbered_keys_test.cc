#include "bench/numbered_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/time/clock.h"

namespace idempotency::internal::bench {
namespace {

const absl::Time kFirst = absl::FromUnixMillis(1700000000000);

TEST(NumberedKeys, TheSameSeedGivesTheSameKeys) {
  const NumberedKeys keys({/*seed=*/5, kFirst, /*hashed_share=*/0.2});
  const NumberedKeys again({/*seed=*/5, kFirst, /*hashed_share=*/0.2});
  const NumberedKeys others({/*seed=*/6, kFirst, /*hashed_share=*/0.2});
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(keys.At(i), again.At(i));
    EXPECT_NE(keys.At(i), others.At(i));
    EXPECT_NE(keys.At(i), keys.TokenAt(i));
  }
}

TEST(NumberedKeys, AllDiffer) {
  const NumberedKeys keys({/*seed=*/5, kFirst, /*hashed_share=*/0.2});
  std::set<std::string> seen;
  for (int i = 0; i < 20000; ++i) seen.insert(keys.At(i));
  for (int i = 0; i < 20000; ++i) seen.insert(keys.TokenAt(i));
  EXPECT_EQ(seen.size(), 40000U);
}

TEST(NumberedKeys, AreInTheOrderOfTheirNumbers) {
  const NumberedKeys keys({/*seed=*/5, kFirst, /*hashed_share=*/0});
  EXPECT_EQ(Uuid::Parse(keys.At(0))->TimeOrderedAt(), kFirst);
  EXPECT_EQ(Uuid::Parse(keys.At(NumberedKeys::kKeysPerMilli))->TimeOrderedAt(),
            kFirst + absl::Milliseconds(1));
}

TEST(NumberedKeys, FreshOnesHaveTheTimeOfNow) {
  const NumberedKeys keys({/*seed=*/5, /*first=*/{}, /*hashed_share=*/0});
  const absl::Time before = absl::Now() - absl::Milliseconds(1);
  const absl::Time time = *Uuid::Parse(keys.At(0))->TimeOrderedAt();
  EXPECT_GE(time, before);
  EXPECT_LE(time, absl::Now());
}

TEST(NumberedKeys, AShareIsNotTimeOrdered) {
  const NumberedKeys keys({/*seed=*/5, kFirst, /*hashed_share=*/0.2});
  int hashed = 0;
  for (int i = 0; i < 10000; ++i) {
    if (!Uuid::Parse(keys.At(i))->TimeOrderedAt().has_value()) ++hashed;
  }
  EXPECT_NEAR(hashed, 2000, 200);
}

}  // namespace
}  // namespace idempotency::internal::bench
