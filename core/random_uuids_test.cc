#include "core/random_uuids.h"

#include <gtest/gtest.h>

#include <set>

namespace idempotency::internal {
namespace {

TEST(RandomUuidsTest, AreDifferentAndOfVersion4) {
  const std::vector<Uuid> uuids = RandomUuids(256);
  ASSERT_EQ(uuids.size(), 256u);
  EXPECT_EQ(std::set<Uuid>(uuids.begin(), uuids.end()).size(), uuids.size());
  for (const Uuid& uuid : uuids) {
    EXPECT_EQ(uuid.bytes()[6] >> 4, 4);
    EXPECT_EQ(uuid.bytes()[8] >> 6, 2);
  }
}

TEST(RandomUuidsTest, OfNoneThereIsNone) { EXPECT_TRUE(RandomUuids(0).empty()); }

}  // namespace
}  // namespace idempotency::internal
