#include "server/queue/record_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "server/store/testing/operations.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Every item does.
constexpr auto kFits = [](int) { return true; };
// No item joins another.
constexpr auto kApart = [](int, int) { return false; };

// Up to `limit` items of different records.
std::vector<int> Take(RecordQueue<int>& queue, std::size_t limit) {
  std::vector<int> taken;
  std::vector<int> expired;
  const std::size_t records = queue.records();
  for (std::size_t i = 0; i < records && i < limit; ++i) {
    taken.push_back(*queue.TakeOne([](int) { return false; }, expired, kFits, kApart));
  }
  return taken;
}

TEST(RecordQueueTest, KeepsTheOrderOfDifferentRecords) {
  RecordQueue<int> queue;
  queue.Push(IdNamed("c"), 1);
  queue.Push(IdNamed("a"), 2);
  queue.Push(IdNamed("b"), 3);

  EXPECT_THAT(Take(queue, 2), ElementsAre(1, 2));
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_THAT(Take(queue, 2), ElementsAre(3));
  EXPECT_THAT(Take(queue, 2), IsEmpty());
}

TEST(RecordQueueTest, GivesOneItemOfARecordAtATimeInOrder) {
  RecordQueue<int> queue;
  queue.Push(IdNamed("hot"), 1);
  queue.Push(IdNamed("hot"), 2);
  queue.Push(IdNamed("hot"), 3);
  queue.Push(IdNamed("other"), 4);

  EXPECT_THAT(Take(queue, 256), ElementsAre(1, 4));
  EXPECT_THAT(Take(queue, 256), ElementsAre(2));
  EXPECT_THAT(Take(queue, 256), ElementsAre(3));
  EXPECT_EQ(queue.size(), 0u);
}

TEST(RecordQueueTest, AHotRecordDoesNotDelayTheOthers) {
  RecordQueue<int> queue;
  queue.Push(IdNamed("hot"), 1);
  queue.Push(IdNamed("hot"), 2);
  queue.Push(IdNamed("other"), 3);

  EXPECT_THAT(Take(queue, 1), ElementsAre(1));
  EXPECT_THAT(Take(queue, 1), ElementsAre(3));
  EXPECT_THAT(Take(queue, 1), ElementsAre(2));
}

TEST(RecordQueueTest, AnItemThatDoesNotFitRemainsTheNext) {
  RecordQueue<int> queue;
  queue.Push(IdNamed("first"), 1);
  queue.Push(IdNamed("first"), 2);
  queue.Push(IdNamed("second"), 3);

  std::vector<int> expired;
  const auto is_expired = [](int item) { return item == 1; };
  EXPECT_FALSE(queue
                   .TakeOne(
                       is_expired, expired, [](int) { return false; }, kApart)
                   .has_value());
  EXPECT_THAT(expired, ElementsAre(1));
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue.records(), 2u);
  EXPECT_THAT(Take(queue, 256), ElementsAre(2, 3));
}

TEST(RecordQueueTest, AnItemThatIsPutBackIsTheNextOfItsRecord) {
  RecordQueue<int> queue;
  queue.Push(IdNamed("hot"), 1);
  queue.Push(IdNamed("hot"), 2);
  ASSERT_THAT(Take(queue, 1), ElementsAre(1));
  ASSERT_THAT(Take(queue, 1), ElementsAre(2));
  queue.Push(IdNamed("hot"), 3);

  queue.PutBack(IdNamed("hot"), 2);
  queue.PutBack(IdNamed("hot"), 1);
  queue.PutBack(IdNamed("alone"), 4);

  EXPECT_EQ(queue.size(), 4u);
  EXPECT_THAT(Take(queue, 256), ElementsAre(1, 4));
  EXPECT_THAT(Take(queue, 256), ElementsAre(2));
  EXPECT_THAT(Take(queue, 256), ElementsAre(3));
}

TEST(RecordQueueTest, AnExpiredItemJoinsNone) {
  RecordQueue<int> queue;
  for (int item = 1; item <= 5; ++item) queue.Push(IdNamed("hot"), item);

  std::vector<int> expired;
  std::vector<int> joined;
  const auto taken = queue.TakeOne([](int item) { return item == 1 || item == 3; }, expired, kFits,
                                   [&joined](int, int behind) {
                                     if (behind == 5) return false;
                                     joined.push_back(behind);
                                     return true;
                                   });

  EXPECT_EQ(taken, 2);
  EXPECT_THAT(expired, ElementsAre(1, 3));
  EXPECT_THAT(joined, ElementsAre(4));
  EXPECT_THAT(Take(queue, 256), ElementsAre(5));
}

}  // namespace
}  // namespace idempotency::internal
