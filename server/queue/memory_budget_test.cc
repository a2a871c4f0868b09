#include "server/queue/memory_budget.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/queue/namespace_shares.h"

namespace idempotency::internal {
namespace {

using Hold = MemoryBudget::Hold;

constexpr std::size_t kMax = 1000;
constexpr bool kBringsWork = true;
constexpr bool kEndsWork = false;

// Replies of 10 until one is refused: the effect of callers that do not read.
std::vector<Hold> FillWithReplies(MemoryBudget& budget, const std::string& name_space) {
  std::vector<Hold> holds;
  while (std::optional<Hold> hold = budget.TryHoldReply(name_space, 10)) {
    holds.push_back(*std::move(hold));
  }
  return holds;
}

TEST(MemoryBudgetTest, UnreadRepliesLeaveCompletionsTheirHalf) {
  Observer observer;
  MemoryBudget budget(kMax, observer);
  std::vector<std::vector<Hold>> unread;
  for (int i = 0; i < 100; ++i) {
    unread.push_back(FillWithReplies(budget, "tenant-" + std::to_string(i)));
  }
  EXPECT_GT(budget.held(), 480u);
  EXPECT_LE(budget.held(), 500u);
  EXPECT_TRUE(budget.HasRoomFor(500, kEndsWork));
  unread.clear();
  EXPECT_EQ(budget.held(), 0u);
}

TEST(MemoryBudgetTest, ReservationsLeaveCompletionsAFifth) {
  Observer observer;
  MemoryBudget budget(kMax, observer);
  budget.Add(700);
  EXPECT_TRUE(budget.HasRoomFor(100, kBringsWork));
  EXPECT_FALSE(budget.HasRoomFor(101, kBringsWork));
  EXPECT_TRUE(budget.HasRoomFor(300, kEndsWork));
  EXPECT_FALSE(budget.HasRoomFor(301, kEndsWork));
}

TEST(MemoryBudgetTest, ANamespaceTakesNoMoreThanItLeavesToOthers) {
  Observer observer;
  MemoryBudget budget(kMax, observer);
  const std::vector<Hold> greedy = FillWithReplies(budget, "greedy");
  EXPECT_EQ(budget.held(), 250u);
  const auto reply = budget.TryHoldReply("calm", 50);
  EXPECT_TRUE(reply.has_value());
  EXPECT_TRUE(budget.TryHoldWaiter("calm", 50).has_value());
  EXPECT_FALSE(budget.TryHoldWaiter("greedy", 10).has_value());
}

TEST(MemoryBudgetTest, WaitersAreBoundedAsWell) {
  Observer observer;
  MemoryBudget budget(kMax, observer);
  std::vector<Hold> waiters;
  while (std::optional<Hold> hold = budget.TryHoldWaiter("one", 7)) {
    waiters.push_back(*std::move(hold));
  }
  EXPECT_LE(budget.held(), 250u);
  waiters.pop_back();
  EXPECT_TRUE(budget.TryHoldWaiter("one", 7).has_value());
}

TEST(MemoryBudgetTest, TheLargestReplyGoesWhenItIsTheOnlyOne) {
  Observer observer;
  MemoryBudget budget(kMax, observer);
  const std::optional<Hold> waiter = budget.TryHoldWaiter("one", 10);
  budget.Add(900);
  std::optional<Hold> large = budget.TryHoldReply("one", 2000);
  ASSERT_TRUE(large.has_value());
  EXPECT_FALSE(budget.TryHoldReply("two", 1).has_value());
  EXPECT_FALSE(budget.HasRoomFor(1, kEndsWork));
  large.reset();
  EXPECT_TRUE(budget.TryHoldReply("two", 2000).has_value());
}

TEST(MemoryBudgetTest, TheLargestOperationFitsWhenItIsAlone) {
  Observer observer;
  MemoryBudget budget(kMax, observer);
  EXPECT_TRUE(budget.HasRoomFor(2000, kEndsWork));
  EXPECT_TRUE(budget.HasRoomFor(2000, kBringsWork));
}

TEST(MemoryBudgetTest, RequestsHaveRoomAsTheirOperationsHave) {
  Observer observer;
  MemoryBudget budget(kMax, observer);
  std::optional<Hold> largest = budget.TryHoldRequest(2 * kMax, kBringsWork);
  ASSERT_TRUE(largest.has_value()) << "it is alone";
  EXPECT_FALSE(budget.TryHoldRequest(1, kEndsWork).has_value());
  largest->ShrinkTo(700);
  EXPECT_FALSE(budget.TryHoldRequest(101, kBringsWork).has_value());
  const std::optional<Hold> work = budget.TryHoldRequest(100, kBringsWork);
  EXPECT_TRUE(work.has_value());
  EXPECT_FALSE(budget.TryHoldRequest(201, kEndsWork).has_value());
  const std::optional<Hold> end = budget.TryHoldRequest(200, kEndsWork);
  EXPECT_TRUE(end.has_value());
  EXPECT_EQ(budget.held(), kMax);
}

// Callers that do not read them would otherwise end the leases of all others.
TEST(MemoryBudgetTest, AnswersLeaveRoomForOperationsThatEndWork) {
  Observer observer;
  MemoryBudget budget(kMax, observer);
  const Hold others = budget.HoldAnswer(kMax);
  const Hold of_sessions = budget.HoldSessionAnswers(kMax);
  EXPECT_EQ(budget.held(), 2 * kMax);
  EXPECT_FALSE(budget.HasRoomFor(1, kBringsWork));
  EXPECT_FALSE(budget.TryHoldRequest(1, kBringsWork).has_value());
  EXPECT_TRUE(budget.HasRoomFor(kMax, kEndsWork));
  budget.Add(900);
  EXPECT_FALSE(budget.HasRoomFor(101, kEndsWork));
  const std::optional<Hold> request = budget.TryHoldRequest(100, kEndsWork);
  EXPECT_TRUE(request.has_value());
  EXPECT_FALSE(budget.TryHoldRequest(1, kEndsWork).has_value());
  budget.Remove(900);
}

TEST(MemoryBudgetTest, AnswersOfSessionsAreManyAboveAnEighth) {
  constexpr std::size_t kBytes = 64 * 1024 * 1024;
  Observer observer;
  MemoryBudget budget(kBytes, observer);
  const Hold other = budget.HoldAnswer(kBytes);
  Hold eighth = budget.HoldSessionAnswers(kBytes / 8);
  EXPECT_FALSE(budget.SessionAnswersAreMany());
  const Hold one = budget.HoldSessionAnswers(1);
  EXPECT_TRUE(budget.SessionAnswersAreMany());
  eighth.Release();
  EXPECT_FALSE(budget.SessionAnswersAreMany());
}

TEST(MemoryBudgetTest, ASessionMayHaveLessOfManyAnswers) {
  constexpr std::size_t kBytes = 64 * 1024 * 1024;
  Observer observer;
  MemoryBudget budget(kBytes, observer);
  EXPECT_EQ(budget.SessionAnswersAllowance(), kBytes / 128);
  const Hold quarter = budget.HoldSessionAnswers(kBytes / 4);
  EXPECT_EQ(budget.SessionAnswersAllowance(), kBytes / 256);
  const Hold most = budget.HoldSessionAnswers(kBytes);
  EXPECT_EQ(budget.SessionAnswersAllowance(), 16u * 1024);
}

TEST(MemoryBudgetTest, AHoldIsGivenBackOnceWhereverItGoes) {
  Observer observer;
  MemoryBudget budget(kMax, observer);
  Hold first = *budget.TryHoldReply("one", 100);
  Hold second = std::move(first);
  EXPECT_EQ(budget.held(), 100u);
  second.ShrinkTo(40);
  EXPECT_EQ(budget.held(), 40u);
  second = budget.HoldAnswer(7);
  EXPECT_EQ(budget.held(), 7u);
  second.Release();
  second.Release();
  EXPECT_EQ(budget.held(), 0u);
}

// An empty reply, for example. Otherwise every namespace that ever had one would take memory.
TEST(NamespaceSharesTest, NothingIsKeptOfANamespaceWithoutAShare) {
  NamespaceShares shares;
  shares.Add("nothing", 0);
  shares.Add("something", 1);
  EXPECT_EQ(shares.namespaces(), 1u);
  shares.Remove("something", 1);
  EXPECT_EQ(shares.namespaces(), 0u);
}

}  // namespace
}  // namespace idempotency::internal
