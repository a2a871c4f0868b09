#include "server/rpc/held_answers.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace idempotency::internal {
namespace {

class HeldAnswersTest : public ::testing::Test {
 protected:
  GatheredAnswers::Holds Holds(std::size_t others, std::size_t reply = 0) {
    GatheredAnswers::Holds holds;
    if (reply > 0) holds.replies.push_back(*budget_.TryHoldReply("one", reply));
    holds.others = budget_.HoldUnreadAnswers(others);
    return holds;
  }

  Observer observer_;
  MemoryBudget budget_{10'000, observer_};
  const std::shared_ptr<HostAnswers> host_ = std::make_shared<HostAnswers>(0);
};

TEST_F(HeldAnswersTest, WrittenOnesAreReleasedInTheirOrder) {
  HeldAnswers held(host_);
  held.Add(100, Holds(60, 40));
  held.Add(10, Holds(10));
  EXPECT_EQ(held.others(), 70u);
  EXPECT_EQ(*host_, 70u);
  held.ReleaseWritten(11);
  EXPECT_EQ(budget_.held(), 110u) << "one byte of the first is left";
  held.ReleaseWritten(10);
  EXPECT_EQ(budget_.held(), 10u);
  EXPECT_EQ(held.others(), 10u);
  EXPECT_EQ(*host_, 10u);
  held.ReleaseWritten(0);
  EXPECT_EQ(budget_.held(), 0u);
  EXPECT_EQ(*host_, 0u);
}

TEST_F(HeldAnswersTest, OfAnEndedSessionTheFrameThatIsBeingWrittenIsKept) {
  HeldAnswers held(host_);
  held.Add(100, Holds(60, 40));
  held.Add(200, Holds(200));
  held.Add(100, Holds(50, 50));
  held.Keep(150);
  EXPECT_EQ(budget_.held(), 150u);
  EXPECT_EQ(held.others(), 110u);
  EXPECT_EQ(*host_, 110u);
  EXPECT_EQ(budget_.unread_answers(), 110u);
  held.Keep(20);
  EXPECT_EQ(budget_.held(), 20u);
  EXPECT_EQ(*host_, 0u);
  held.Keep(0);
  EXPECT_EQ(budget_.held(), 0u);
}

TEST_F(HeldAnswersTest, NothingIsHeldAfterwards) {
  {
    HeldAnswers held(host_);
    held.Add(100, Holds(60, 40));
    HeldAnswers without_host(nullptr);
    without_host.Add(10, Holds(10));
    EXPECT_EQ(*host_, 60u);
  }
  EXPECT_EQ(budget_.held(), 0u);
  EXPECT_EQ(*host_, 0u);
}

}  // namespace
}  // namespace idempotency::internal
