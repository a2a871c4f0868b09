#include "server/queue/fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "server/store/testing/operations.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// No item joins another.
constexpr auto kApart = [](const auto&, const auto&) { return false; };

// None of the items has expired.
template <typename Item>
std::vector<Item> Take(FairQueue<Item>& queue, std::size_t limit) {
  std::vector<Item> expired;
  return queue.Take(
      limit, [](const Item&) { return false; }, expired, kApart);
}

TEST(FairQueueTest, ItemsOfARecordThatJoinLeaveWithItAndDoNotCount) {
  FairQueue<std::string> queue;
  for (const char* const item : {"a1", "a2", "b1", "a3"}) {
    queue.Push("busy", IdNamed("hot"), item);
  }
  queue.Push("busy", IdNamed("other"), "c1");
  std::vector<std::string> expired;
  const auto join = [](std::string& first, const std::string& behind) {
    if (first[0] != behind[0]) return false;
    first += behind;
    return true;
  };
  const auto live = [](const std::string&) { return false; };
  // One that cannot join stays in front of those behind it.
  EXPECT_THAT(queue.Take(2, live, expired, join), ElementsAre("a1a2", "c1"));
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_THAT(queue.Take(2, live, expired, join), ElementsAre("b1"));
  EXPECT_THAT(queue.Take(2, live, expired, join), ElementsAre("a3"));
  EXPECT_EQ(queue.size(), 0u);
}

TEST(FairQueueTest, NamespacesTakeTurns) {
  FairQueue<std::string> queue;
  for (int i = 0; i < 4; ++i) {
    queue.Push("busy", IdNamed("b" + std::to_string(i)), "b" + std::to_string(i));
  }
  queue.Push("calm", IdNamed("c0"), "c0");
  queue.Push("calm", IdNamed("c1"), "c1");

  EXPECT_THAT(Take(queue, 3), ElementsAre("b0", "c0", "b1"));
  EXPECT_THAT(Take(queue, 2), ElementsAre("c1", "b2")) << "the turns go on where they stopped";
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_THAT(Take(queue, 9), ElementsAre("b3"));
  EXPECT_THAT(Take(queue, 9), IsEmpty());
}

TEST(FairQueueTest, OneThatOffersTenTimesAsMuchGetsNoMoreThanItsShare) {
  FairQueue<std::string> queue;
  std::map<std::string, int> taken;
  int next = 0;
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 640; ++i) queue.Push("flood", IdNamed(std::to_string(next++)), "flood");
    for (const std::string name : {"a", "b", "c"}) {
      for (int i = 0; i < 64; ++i) queue.Push(name, IdNamed(std::to_string(next++)), name);
    }
    for (const std::string& name : Take(queue, 256)) ++taken[name];
  }
  for (const std::string name : {"a", "b", "c", "flood"}) EXPECT_EQ(taken[name], 6400) << name;
}

TEST(FairQueueTest, GivesOneItemOfARecordAtATime) {
  FairQueue<int> queue;
  queue.Push("a", IdNamed("hot"), 1);
  queue.Push("a", IdNamed("hot"), 2);
  queue.Push("b", IdNamed("other"), 3);

  EXPECT_THAT(Take(queue, 256), ElementsAre(1, 3));
  EXPECT_THAT(Take(queue, 256), ElementsAre(2));
  EXPECT_EQ(queue.SizeOf("a"), 0u);
}

TEST(FairQueueTest, ANamespaceWithNothingMoreForACallEndsNoOthersTurns) {
  FairQueue<int> queue;
  queue.Push("a", IdNamed("hot"), 1);
  queue.Push("a", IdNamed("hot"), 2);
  for (int i = 3; i < 8; ++i) queue.Push("b", IdNamed(std::to_string(i)), i);

  EXPECT_THAT(Take(queue, 256), ElementsAre(1, 3, 4, 5, 6, 7));
}

TEST(FairQueueTest, NamesThatAreNotUsedAnyMoreAreForgotten) {
  FairQueue<int> queue;
  for (int i = 0; i < 1000; ++i) {
    queue.Push("name-" + std::to_string(i), IdNamed(std::to_string(i)), i);
  }
  EXPECT_EQ(queue.namespaces(), 1000u);
  EXPECT_THAT(Take(queue, 2000), SizeIs(1000));
  EXPECT_EQ(queue.namespaces(), 0u);
  queue.Push("name-999", IdNamed("again"), 7);
  EXPECT_THAT(Take(queue, 1), ElementsAre(7));
}

// The first three items of a hot record, whose items leave one by one, have expired.
TEST(FairQueueTest, ExpiredItemsTakeNoPlace) {
  FairQueue<int> queue;
  for (const int item : {-1, -2, -3, 4, 5, -6}) queue.Push("a", IdNamed("hot"), item);
  queue.Push("a", IdNamed("gone"), -7);
  queue.Push("b", IdNamed("other"), 8);
  std::vector<int> expired;
  const auto is_expired = [](int item) { return item < 0; };

  EXPECT_THAT(queue.Take(2, is_expired, expired, kApart), ElementsAre(4, 8));
  EXPECT_THAT(expired, ElementsAre(-1, -2, -3));
  EXPECT_EQ(queue.size(), 3U);
  EXPECT_THAT(queue.Take(2, is_expired, expired, kApart), ElementsAre(5));
  EXPECT_THAT(expired, ElementsAre(-1, -2, -3, -7, -6)) << "those behind it as well";
  EXPECT_THAT(queue.Take(2, is_expired, expired, kApart), IsEmpty());
  EXPECT_EQ(queue.size(), 0U);
  EXPECT_EQ(queue.namespaces(), 0U);
}

}  // namespace
}  // namespace idempotency::internal
