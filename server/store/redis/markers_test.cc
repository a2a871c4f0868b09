// What the markers of a Redis show.
#include "server/store/redis/markers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "server/store/redis/identity.h"

namespace idempotency::internal {
namespace {

constexpr auto kAll = static_cast<std::size_t>(RedisIdentity::kMarkers);

RedisMarkerValues Values(const std::string& first, const std::string& others,
                         std::size_t missing = 0) {
  RedisMarkerValues values(kAll, others);
  values.front() = first;
  for (std::size_t i = 0; i < missing; ++i) values[kAll - 1 - i] = "";
  return values;
}

// The result of readings that find this, one after the other.
RedisMarkers After(const std::vector<RedisMarkerValues>& readings) {
  std::size_t next = 0;
  RedisMarkers found = LookAtRedisMarkers([&] { return readings.at(next++); });
  EXPECT_EQ(next, readings.size());
  return found;
}

TEST(RedisMarkersTest, WholeOrNew) {
  const RedisMarkers whole = After({Values("1:a", "1:a")});
  EXPECT_EQ(whole.identity, "1:a");
  EXPECT_EQ(whole.faults.count(), 0);
  const RedisMarkers none = After({Values("", "")});
  EXPECT_EQ(none.identity, "");
  EXPECT_EQ(none.faults.missing, RedisIdentity::kMarkers);
  EXPECT_FALSE(none.faults.preparing);
}

TEST(RedisMarkersTest, WhileTheyAreWrittenNothingIsLost) {
  for (const std::size_t missing : {kAll - 1, kAll / 2, std::size_t{0}}) {
    const RedisMarkers found = After({Values("preparing:1:a", "1:a", missing)});
    EXPECT_TRUE(found.faults.preparing);
    EXPECT_EQ(found.identity, "1:a");
    EXPECT_EQ(found.faults.missing, static_cast<int>(missing) + 1);
    EXPECT_EQ(found.faults.differing, 0);
  }
}

// Several servers are not read at the same moment.
TEST(RedisMarkersTest, APreparationThatEndsMeanwhileIsNoLoss) {
  for (const auto& seen : {Values("1:a", "1:a", 40), Values("", "1:a", 40)}) {
    const RedisMarkers ended = After({seen, Values("1:a", "1:a")});
    EXPECT_EQ(ended.faults.count(), 0);
    EXPECT_EQ(ended.identity, "1:a");
    EXPECT_TRUE(After({seen, Values("preparing:1:a", "1:a", 20)}).faults.preparing);
  }
}

TEST(RedisMarkersTest, ALossIsOneWhenItIsReadTwice) {
  const RedisMarkers part = After({Values("1:a", "1:a", 40), Values("1:a", "1:a", 40)});
  EXPECT_EQ(part.identity, "1:a");
  EXPECT_EQ(part.faults.missing, 40);
  EXPECT_FALSE(part.faults.preparing);
  EXPECT_EQ(After({Values("", "1:a"), Values("", "1:a")}).faults.missing, 1);
  const RedisMarkers older = After({Values("1:older", "1:a"), Values("1:older", "1:a")});
  EXPECT_EQ(older.identity, "1:a");
  EXPECT_EQ(older.faults.differing, 1);
}

// The others are of an earlier preparation: the first one does not show that they were not written
// yet.
TEST(RedisMarkersTest, APreparationOverOtherRecordsIsALoss) {
  const RedisMarkerValues seen = Values("preparing:1:b", "1:a");
  const RedisMarkers found = After({seen, seen});
  EXPECT_FALSE(found.faults.preparing);
  EXPECT_EQ(found.identity, "1:a");
  EXPECT_EQ(found.faults.missing, 1);
}

TEST(RedisMarkersTest, AServerThatIsNotReadCountsAsNothing) {
  RedisMarkerValues seen = Values("1:a", "1:a");
  seen[5] = absl::UnavailableError("no answer");
  const RedisMarkers found = After({seen});
  EXPECT_EQ(found.faults.count(), 0);
  EXPECT_EQ(found.unread.code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace idempotency::internal
