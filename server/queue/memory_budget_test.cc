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

constexpr std::size_t kKib = 1024;
constexpr std::size_t kMib = 1024 * kKib;

// For an operation of a namespace that has none.
bool HasRoomFor(MemoryBudget& budget, std::size_t bytes, bool brings_work) {
  return budget.TryHoldOperation("new", bytes, brings_work).has_value();
}

// Operations that end work, until one is refused.
std::vector<Hold> FillWithEndsOfWork(MemoryBudget& budget, const std::string& name_space,
                                     std::size_t bytes) {
  std::vector<Hold> holds;
  while (std::optional<Hold> hold = budget.TryHoldOperation(name_space, bytes, kEndsWork)) {
    holds.push_back(*std::move(hold));
  }
  return holds;
}

// Replies until one is refused: the effect of callers that do not read.
std::vector<Hold> FillWithReplies(MemoryBudget& budget, const std::string& name_space,
                                  std::size_t bytes = 10) {
  std::vector<Hold> holds;
  while (std::optional<Hold> hold = budget.TryHoldReply(name_space, bytes)) {
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
  EXPECT_TRUE(HasRoomFor(budget, 500, kEndsWork));
  unread.clear();
  EXPECT_EQ(budget.held(), 0u);
}

TEST(MemoryBudgetTest, ReservationsLeaveCompletionsAFifth) {
  Observer observer;
  MemoryBudget budget(kMax, observer);
  budget.Add(700);
  EXPECT_TRUE(HasRoomFor(budget, 100, kBringsWork));
  EXPECT_FALSE(HasRoomFor(budget, 101, kBringsWork));
  EXPECT_TRUE(HasRoomFor(budget, 300, kEndsWork));
  EXPECT_FALSE(HasRoomFor(budget, 301, kEndsWork));
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

TEST(MemoryBudgetTest, ARefusalNamesTheShareOnlyOfANamespaceThatFillsIt) {
  Observer observer;
  MemoryBudget budget(kMax, observer);
  ShedReason refusal = ShedReason::kSession;
  const std::optional<Hold> large = budget.TryHoldReply("a", 300);
  EXPECT_FALSE(budget.TryHoldReply("a", 250, &refusal).has_value());
  EXPECT_EQ(refusal, ShedReason::kReplies);
  // Now others have nearly all of the half.
  const std::optional<Hold> waiter = budget.TryHoldWaiter("b", 150);
  const std::optional<Hold> small = budget.TryHoldWaiter("c", 10);
  for (const char* const name_space : {"c", "d"}) {
    refusal = ShedReason::kSession;
    EXPECT_FALSE(budget.TryHoldReply(name_space, 60, &refusal).has_value());
    EXPECT_EQ(refusal, ShedReason::kQueue) << name_space;
  }
}

TEST(MemoryBudgetTest, ARefusalForWhatIsHeldBesideRepliesNamesTheQueue) {
  Observer observer;
  MemoryBudget budget(kMax, observer);
  ShedReason refusal = ShedReason::kSession;
  const std::optional<Hold> reply = budget.TryHoldReply("a", 10);
  budget.Add(860);
  EXPECT_FALSE(budget.TryHoldReply("a", 20, &refusal).has_value());
  EXPECT_EQ(refusal, ShedReason::kQueue);
}

TEST(MemoryBudgetTest, TheLargestReplyGoesWhenItIsTheOnlyOne) {
  Observer observer;
  MemoryBudget budget(kMax, observer);
  const std::optional<Hold> waiter = budget.TryHoldWaiter("one", 10);
  budget.Add(900);
  std::optional<Hold> large = budget.TryHoldReply("one", 2000);
  ASSERT_TRUE(large.has_value());
  EXPECT_FALSE(budget.TryHoldReply("two", 1).has_value());
  EXPECT_FALSE(HasRoomFor(budget, 1, kEndsWork));
  large.reset();
  EXPECT_TRUE(budget.TryHoldReply("two", 2000).has_value());
}

TEST(MemoryBudgetTest, TheLargestOperationFitsWhenItIsAlone) {
  Observer observer;
  MemoryBudget budget(kMax, observer);
  EXPECT_TRUE(HasRoomFor(budget, 2000, kEndsWork));
  EXPECT_TRUE(HasRoomFor(budget, 2000, kBringsWork));
}

// Nobody has checked yet whether these have a reservation.
TEST(MemoryBudgetTest, LargeOperationsThatEndWorkLeaveRoomToOtherNamespaces) {
  Observer observer;
  MemoryBudget budget(256 * kMib, observer);
  const std::vector<Hold> greedy = FillWithEndsOfWork(budget, "greedy", 8 * kMib);
  EXPECT_EQ(greedy.size(), 14u) << "half of seven eighths";
  EXPECT_FALSE(budget.TryHoldOperation("greedy", 65 * kKib, kEndsWork).has_value());
  const std::vector<Hold> second = FillWithEndsOfWork(budget, "second", 8 * kMib);
  EXPECT_EQ(second.size(), 7u);
  EXPECT_TRUE(HasRoomFor(budget, 8 * kMib, kEndsWork));
}

TEST(MemoryBudgetTest, AnEighthIsOnlyForSmallOperationsThatEndWork) {
  Observer observer;
  MemoryBudget budget(64 * kMib, observer);
  std::vector<std::vector<Hold>> large;
  for (int i = 0; i < 40; ++i) {
    large.push_back(FillWithReplies(budget, "large-" + std::to_string(i), kMib));
    large.push_back(FillWithEndsOfWork(budget, "large-" + std::to_string(i), kMib));
  }
  EXPECT_EQ(budget.held() / kMib, 56u) << "seven eighths";
  EXPECT_FALSE(HasRoomFor(budget, kMib, kEndsWork));
  EXPECT_FALSE(budget.TryHoldRequest(kMib, kEndsWork).has_value());
  EXPECT_FALSE(budget.TryHoldWaiter("new", kKib).has_value());
  EXPECT_FALSE(HasRoomFor(budget, kKib, kBringsWork));
  EXPECT_TRUE(budget.TryHoldRequest(64 * kKib, kEndsWork).has_value());
  EXPECT_TRUE(HasRoomFor(budget, 64 * kKib, kEndsWork));
  EXPECT_FALSE(HasRoomFor(budget, 64 * kKib + 1, kEndsWork));
  EXPECT_FALSE(budget.TryHoldOperation("large-0", kKib, kEndsWork).has_value());
  large.clear();
  EXPECT_EQ(budget.held(), 0u);
}

TEST(MemoryBudgetTest, SmallOperationsOfOneNamespaceLeaveHalfToOthers) {
  Observer observer;
  MemoryBudget budget(kMib, observer);
  const std::vector<Hold> greedy = FillWithEndsOfWork(budget, "greedy", kKib);
  EXPECT_EQ(budget.held(), kMib / 2);
  const std::vector<Hold> second = FillWithEndsOfWork(budget, "second", kKib);
  EXPECT_EQ(second.size(), 256u);
  EXPECT_TRUE(HasRoomFor(budget, kKib, kEndsWork));
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
  const Hold of_sessions = budget.HoldUnreadAnswers(kMax);
  EXPECT_EQ(budget.held(), 2 * kMax);
  EXPECT_FALSE(HasRoomFor(budget, 1, kBringsWork));
  EXPECT_FALSE(budget.TryHoldRequest(1, kBringsWork).has_value());
  EXPECT_TRUE(HasRoomFor(budget, kMax, kEndsWork));
  budget.Add(900);
  EXPECT_FALSE(HasRoomFor(budget, 101, kEndsWork));
  const std::optional<Hold> request = budget.TryHoldRequest(100, kEndsWork);
  EXPECT_TRUE(request.has_value());
  EXPECT_FALSE(budget.TryHoldRequest(1, kEndsWork).has_value());
  budget.Remove(900);
}

// A client without credentials can fill their pool.
TEST(MemoryBudgetTest, AnswersOfSessionsLeaveRoomForNewWorkUpToTheirPool) {
  Observer observer;
  MemoryBudget budget(kMax, observer);
  Hold pool = budget.HoldUnreadAnswers(kMax / 4);
  EXPECT_TRUE(HasRoomFor(budget, kMax, kBringsWork)) << "as if it were alone";
  budget.Add(700);
  EXPECT_TRUE(HasRoomFor(budget, 100, kBringsWork));
  EXPECT_FALSE(HasRoomFor(budget, 101, kBringsWork));
  EXPECT_TRUE(budget.TryHoldRequest(100, kBringsWork).has_value());
  const Hold more = budget.HoldUnreadAnswers(1);
  EXPECT_FALSE(HasRoomFor(budget, 100, kBringsWork));
  EXPECT_TRUE(HasRoomFor(budget, 99, kBringsWork));
  budget.Remove(700);
}

TEST(MemoryBudgetTest, AnswersOfSessionsAreManyAboveAnEighth) {
  constexpr std::size_t kBytes = 64 * 1024 * 1024;
  Observer observer;
  MemoryBudget budget(kBytes, observer);
  const Hold other = budget.HoldAnswer(kBytes);
  Hold eighth = budget.HoldUnreadAnswers(kBytes / 8);
  EXPECT_FALSE(budget.UnreadAnswersAreMany());
  const Hold one = budget.HoldUnreadAnswers(1);
  EXPECT_TRUE(budget.UnreadAnswersAreMany());
  eighth.Release();
  EXPECT_FALSE(budget.UnreadAnswersAreMany());
}

TEST(MemoryBudgetTest, ASessionMayHaveLessOfManyAnswers) {
  constexpr std::size_t kBytes = 64 * 1024 * 1024;
  Observer observer;
  MemoryBudget budget(kBytes, observer);
  EXPECT_EQ(budget.UnreadAnswersAllowance(), kBytes / 128);
  const Hold quarter = budget.HoldUnreadAnswers(kBytes / 4);
  EXPECT_EQ(budget.UnreadAnswersAllowance(), kBytes / 256);
  const Hold most = budget.HoldUnreadAnswers(kBytes);
  EXPECT_EQ(budget.UnreadAnswersAllowance(), 16u * 1024);
}

TEST(MemoryBudgetTest, RequestsOfAdministratorsHaveAQuarterInShares) {
  Observer observer;
  MemoryBudget budget(kMax, observer);
  const auto try_hold = [&](std::string_view owner, std::size_t bytes) {
    std::optional<Hold> hold = budget.TryHoldRequest(bytes, kEndsWork);
    return budget.TryAssign(*hold, owner) ? std::move(hold) : std::nullopt;
  };
  std::optional<Hold> largest = try_hold("one", kMax / 2);
  ASSERT_TRUE(largest.has_value()) << "it is alone";
  EXPECT_FALSE(try_hold("two", 1).has_value());
  largest.reset();
  const std::optional<Hold> first = try_hold("one", kMax / 8);
  EXPECT_TRUE(first.has_value());
  EXPECT_FALSE(try_hold("one", 1).has_value());
  EXPECT_TRUE(try_hold("two", kMax / 8).has_value());
  EXPECT_EQ(budget.held(), kMax / 8);
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
