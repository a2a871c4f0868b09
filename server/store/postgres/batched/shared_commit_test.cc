#include "server/store/postgres/batched/shared_commit.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace idempotency::internal {
namespace {

bool Pays(const std::vector<std::size_t>& replies, std::size_t reservations) {
  std::vector<CompleteOp> completions;
  for (const std::size_t bytes : replies) {
    completions.emplace_back();
    completions.back().reply.bytes = std::string(bytes, 'r');
  }
  return SharedCommit::Pays(completions, std::vector<ReserveOp>(reservations));
}

TEST(SharedCommitTest, PaysWhereThereIsSomethingToShare) {
  EXPECT_TRUE(Pays({1}, 1));
  EXPECT_FALSE(Pays({}, 1));
  EXPECT_FALSE(Pays({1}, 0));
}

// Longer than a commit takes to write.
TEST(SharedCommitTest, NotWhereRepliesWeighMoreThanAMegabyte) {
  constexpr std::size_t kMegabyte = 1024 * 1024;
  EXPECT_TRUE(Pays({kMegabyte}, 1));
  EXPECT_FALSE(Pays({kMegabyte + 1}, 1));
  EXPECT_TRUE(Pays({kMegabyte / 2, kMegabyte / 2}, 1));
  EXPECT_FALSE(Pays({kMegabyte / 2, kMegabyte / 2, 1}, 1));
}

}  // namespace
}  // namespace idempotency::internal
