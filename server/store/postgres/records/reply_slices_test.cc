#include "server/store/postgres/records/reply_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<CompleteBatch::Indices> Slices(const std::vector<std::size_t>& sizes,
                                           std::size_t max_bytes) {
  std::vector<CompleteOp> ops(sizes.size());
  CompleteBatch::Indices indices;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    ops[i].reply.bytes = std::string(sizes[i], 'r');
    indices.push_back(i);
  }
  return SliceByReplies(CompleteBatch(ops), indices, max_bytes);
}

TEST(ReplySlicesTest, ASliceIsFullAtItsLimit) {
  EXPECT_THAT(Slices({4, 6, 1, 9, 2}, 10),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
}

TEST(ReplySlicesTest, ALargerReplyIsASliceOfItsOwn) {
  EXPECT_THAT(Slices({11, 1, 12, 1}, 10),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(3)));
}

TEST(ReplySlicesTest, NothingHasNoSlices) { EXPECT_THAT(Slices({}, 10), IsEmpty()); }

}  // namespace
}  // namespace idempotency::internal
