#include "server/store/postgres/locked_rows.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace idempotency::internal {
namespace {

RecordId IdOf(std::uint32_t number) {
  Uuid::Bytes bytes{};
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<std::uint8_t>(number >> (8 * i));
  return Uuid(bytes);
}

TEST(PostgresLockedRowsTest, ARowCountsOnceItWasFoundLocked) {
  PostgresLockedRows rows(absl::Hours(1));
  EXPECT_FALSE(rows.Contains(IdOf(1)));
  rows.Add({});
  EXPECT_FALSE(rows.Contains(IdOf(1)));
  rows.Add({IdOf(1), IdOf(2)});
  EXPECT_TRUE(rows.Contains(IdOf(1)));
  EXPECT_TRUE(rows.Contains(IdOf(2)));
  EXPECT_FALSE(rows.Contains(IdOf(3)));
  rows.Add({IdOf(3)});
  EXPECT_TRUE(rows.Contains(IdOf(1))) << "what was found before still counts";
  EXPECT_TRUE(rows.Contains(IdOf(3)));
}

TEST(PostgresLockedRowsTest, NotAnyMoreOnceThePauseIsOver) {
  PostgresLockedRows rows(absl::ZeroDuration());
  rows.Add({IdOf(1)});
  EXPECT_FALSE(rows.Contains(IdOf(1)));
}

// With any number of locked rows the memory for them has a bound.
TEST(PostgresLockedRowsTest, AsManyAsSixtyFourThousandAreRemembered) {
  constexpr std::uint32_t kMax = 64 * 1024;
  PostgresLockedRows rows(absl::Hours(1));
  std::vector<RecordId> ids;
  for (std::uint32_t i = 0; i <= kMax; ++i) ids.push_back(IdOf(i));
  rows.Add(ids);
  EXPECT_TRUE(rows.Contains(ids[kMax - 1]));
  EXPECT_FALSE(rows.Contains(ids[kMax])) << "it is waited for again";
}

// Those whose pause is over are removed first.
TEST(PostgresLockedRowsTest, WhatIsOverIsForgotten) {
  constexpr std::uint32_t kMax = 64 * 1024;
  PostgresLockedRows rows(absl::Milliseconds(1));
  std::vector<RecordId> ids;
  for (std::uint32_t i = 0; i < kMax; ++i) ids.push_back(IdOf(i));
  rows.Add(ids);
  const auto over = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
  while (std::chrono::steady_clock::now() < over) {
  }
  // With the pause over a row counts for a moment only, so the test repeats the lookup until it
  // does.
  bool seen = false;
  for (int i = 0; i < 1000 && !seen; ++i) {
    rows.Add({IdOf(kMax)});
    seen = rows.Contains(IdOf(kMax));
  }
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace idempotency::internal
