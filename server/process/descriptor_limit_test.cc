#include "server/process/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "server/limits.h"

namespace idempotency::internal {
namespace {

TEST(DescriptorLimitTest, LeavesAReserve) {
  EXPECT_EQ(DescriptorLimit(1024).ForConnections(), 1024 - limits::kReservedDescriptors);
  EXPECT_EQ(DescriptorLimit(1'000'000).ForConnections(), 1'000'000 - limits::kReservedDescriptors);
}

TEST(DescriptorLimitTest, LeavesHalfOfAFew) {
  EXPECT_EQ(DescriptorLimit(128).ForConnections(), 64);
  EXPECT_EQ(DescriptorLimit(1).ForConnections(), 1);
}

TEST(DescriptorLimitTest, IsSplitBetweenListeners) {
  EXPECT_EQ(DescriptorLimit(1024).ForConnections(2), (1024 - limits::kReservedDescriptors) / 2);
  EXPECT_EQ(DescriptorLimit(1).ForConnections(2), 1);
}

TEST(DescriptorLimitTest, RaisesTheSoftLimitToTheHardOne) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit low{256, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  DescriptorLimit::Raise();
  rlimit now{};
  getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(now.rlim_cur, before.rlim_max);
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace idempotency::internal
