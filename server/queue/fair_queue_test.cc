#include "server/queue/fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
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

constexpr auto kWithoutBytes = [](const auto&) { return std::size_t{0}; };

// None of the items has expired.
template <typename Item>
std::vector<Item> Take(FairQueue<Item>& queue, std::size_t limit) {
  std::vector<Item> expired;
  return queue.Take(
      {limit, 0}, kWithoutBytes, [](const Item&) { return false; }, expired, kApart);
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
  EXPECT_THAT(queue.Take({2, 0}, kWithoutBytes, live, expired, join), ElementsAre("a1a2", "c1"));
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_THAT(queue.Take({2, 0}, kWithoutBytes, live, expired, join), ElementsAre("b1"));
  EXPECT_THAT(queue.Take({2, 0}, kWithoutBytes, live, expired, join), ElementsAre("a3"));
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

// Items are their own sizes, each of a record of its own.
class FairQueueBytesTest : public ::testing::Test {
 protected:
  void Push(const std::string& name_space, std::size_t item, int times) {
    for (int i = 0; i < times; ++i) queue_.Push(name_space, IdNamed(std::to_string(next_++)), item);
  }
  std::vector<std::size_t> Take(std::size_t bytes, std::size_t items = 256) {
    std::vector<std::size_t> expired;
    return queue_.Take(
        {items, bytes}, [](std::size_t item) { return item; }, [](std::size_t) { return false; },
        expired, kApart);
  }

  FairQueue<std::size_t> queue_;
  int next_ = 0;
};

TEST_F(FairQueueBytesTest, OneItemMayExceedTheRoom) {
  Push("a", 4, 5);
  EXPECT_THAT(Take(9), ElementsAre(4, 4, 4));
  EXPECT_TRUE(queue_.left_large());
  EXPECT_THAT(Take(8), ElementsAre(4, 4));
  EXPECT_FALSE(queue_.left_large());
}

TEST_F(FairQueueBytesTest, AnItemLargerThanTheRoomLeaves) {
  Push("a", 100, 2);
  EXPECT_THAT(Take(10), ElementsAre(100));
  EXPECT_THAT(Take(10), ElementsAre(100));
  EXPECT_THAT(Take(10), IsEmpty());
}

TEST_F(FairQueueBytesTest, LargeItemsDelayNoOtherNamespace) {
  Push("flood", 100, 3);
  Push("calm", 1, 4);
  EXPECT_THAT(Take(10), ElementsAre(100, 1, 1, 1, 1));
  EXPECT_EQ(queue_.SizeOf("flood"), 2u);
  Push("calm", 1, 4);
  EXPECT_THAT(Take(10), ElementsAre(100, 1, 1, 1, 1));
}

TEST_F(FairQueueBytesTest, ANamespaceTakesNoMoreThanItLeaves) {
  Push("flood", 2, 10);
  Push("calm", 1, 3);
  EXPECT_THAT(Take(12), ElementsAre(2, 1, 2, 1, 2, 1)) << "its third item exceeds its part";
  EXPECT_THAT(Take(12), ElementsAre(2, 2, 2, 2, 2, 2, 2)) << "alone it has all of it";
}

TEST_F(FairQueueBytesTest, ANamespaceWhoseItemWasTooLargeIsTheNext) {
  Push("first", 100, 2);
  Push("second", 200, 2);
  Push("calm", 1, 8);
  EXPECT_THAT(Take(4), ElementsAre(100, 1, 1));
  EXPECT_THAT(Take(4), ElementsAre(200, 1, 1));
  EXPECT_THAT(Take(4), ElementsAre(100, 1, 1));
  EXPECT_THAT(Take(4), ElementsAre(200, 1, 1));
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

  EXPECT_THAT(queue.Take({2, 0}, kWithoutBytes, is_expired, expired, kApart), ElementsAre(4, 8));
  EXPECT_THAT(expired, ElementsAre(-1, -2, -3));
  EXPECT_EQ(queue.size(), 3U);
  EXPECT_THAT(queue.Take({2, 0}, kWithoutBytes, is_expired, expired, kApart), ElementsAre(5));
  EXPECT_THAT(expired, ElementsAre(-1, -2, -3, -7, -6)) << "those behind it as well";
  EXPECT_THAT(queue.Take({2, 0}, kWithoutBytes, is_expired, expired, kApart), IsEmpty());
  EXPECT_EQ(queue.size(), 0U);
  EXPECT_EQ(queue.namespaces(), 0U);
}

}  // namespace
}  // namespace idempotency::internal
