#include "server/queue/operation_queues.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/uuid.h"
#include "server/observability/observer.h"
#include "server/queue/memory_budget.h"
#include "server/queue/operation_weight.h"
#include "server/store/limits.h"
#include "server/store/testing/operations.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr SteadyTime kNow = SteadyTime(std::chrono::hours(1));

template <typename Op>
QueuedPtr Queue(QueueKind queue, Op op, SteadyTime deadline = kNever) {
  return std::make_unique<QueuedFor<Op>>(queue, std::move(op), deadline,
                                         typename StoreMethod<Op>::Done());
}

QueuedPtr Reservation(std::string_view name, char request = 'a') {
  return Queue(QueueKind::kReserve, ReserveNamed(name, request));
}

QueuedPtr ReservationIn(std::string_view name_space, std::string_view name) {
  ReserveOp op = ReserveNamed(name);
  op.key.name_space = std::string(name_space);
  op.id = RecordIdFor(op.key);
  return Queue(QueueKind::kReserve, std::move(op));
}

QueuedPtr Completion(std::string_view name) {
  return Queue(QueueKind::kComplete, CompleteNamed(name, Uuid()));
}

QueuedPtr CompletionIn(std::string_view name_space, std::string_view name) {
  CompleteOp op = CompleteNamed(name, Uuid());
  op.key.name_space = std::string(name_space);
  op.id = RecordIdFor(op.key);
  return Queue(QueueKind::kComplete, std::move(op));
}

std::vector<RecordId> Ids(const std::vector<QueuedPtr>& operations) {
  std::vector<RecordId> ids;
  for (const QueuedPtr& queued : operations) ids.push_back(queued->id);
  return ids;
}

class LeftCaller final : public ReserveCaller {
 public:
  bool HasLeft() const override { return true; }
};

class OperationQueuesTest : public ::testing::Test {
 protected:
  OperationQueues Make(std::size_t max_queued, std::size_t max_batch) {
    return OperationQueues(max_queued, max_batch, budget_);
  }

  bool TryPush(OperationQueues& queues, QueuedPtr queued) {
    const absl::Status admitted = queues.Admit(*queued);
    if (admitted.ok()) {
      queues.Push(std::move(queued));
    } else {
      EXPECT_EQ(ReasonOf(admitted), Reason::kOverloaded);
    }
    return admitted.ok();
  }

  OperationBatch TakeAll(OperationQueues& queues) {
    OperationBatch batch = queues.Take({}, kNow, unwanted_);
    EXPECT_THAT(unwanted_, IsEmpty());
    return batch;
  }

  Observer observer_;
  MemoryBudget budget_{1024 * 1024, observer_};
  std::vector<QueuedPtr> unwanted_;
};

TEST_F(OperationQueuesTest, OperationsThatEndWorkHaveAnEighthMoreRoom) {
  OperationQueues queues = Make(/*max_queued=*/16, /*max_batch=*/10);
  for (int i = 0; i < 16; ++i) {
    EXPECT_TRUE(TryPush(queues, Reservation(absl::StrCat("record-", i))));
  }
  EXPECT_FALSE(TryPush(queues, Reservation("next")));
  EXPECT_FALSE(TryPush(queues, Queue(QueueKind::kGet, GetNamed("next"))));
  EXPECT_TRUE(TryPush(queues, Completion("next")));
  EXPECT_TRUE(TryPush(queues, Completion("second")));
  EXPECT_FALSE(TryPush(queues, Completion("third")));
  EXPECT_EQ(queues.size(), 18u);
}

// They name no namespace, whose limits would apply.
TEST_F(OperationQueuesTest, ReadsByRecordIdOfOneCallerLeaveRoomForThoseOfOthers) {
  OperationQueues queues = Make(/*max_queued=*/16, /*max_batch=*/10);
  const auto read_of = [](const char* owner) {
    GetOp op;
    op.id = IdNamed("one");
    op.owner = owner;
    return Queue(QueueKind::kGet, std::move(op));
  };
  int admitted = 0;
  while (TryPush(queues, read_of("caller many"))) ++admitted;
  EXPECT_EQ(admitted, 16);
  EXPECT_TRUE(TryPush(queues, read_of("caller few")));
  EXPECT_FALSE(TryPush(queues, read_of("caller many")));
  // And they take turns.
  OperationBatch batch = TakeAll(queues);
  std::vector<std::string_view> owners;
  for (const QueuedPtr& queued : batch.of(QueueKind::kGet)) owners.push_back(queued->name_space());
  EXPECT_THAT(owners, ElementsAre("caller many", "caller few"));
}

// Nobody has checked yet whether these have a reservation.
TEST_F(OperationQueuesTest, CompletionsOfOneNamespaceLeaveRoomForOthers) {
  OperationQueues queues = Make(/*max_queued=*/16, /*max_batch=*/10);
  int admitted = 0;
  while (TryPush(queues, CompletionIn("many", absl::StrCat("record-", admitted)))) ++admitted;
  EXPECT_EQ(admitted, 18);
  EXPECT_TRUE(TryPush(queues, CompletionIn("few", "first")));
  EXPECT_TRUE(TryPush(queues, ReservationIn("few", "second")));
  EXPECT_FALSE(TryPush(queues, CompletionIn("few", "third"))) << "the reserve is used up";
}

TEST_F(OperationQueuesTest, CompletionsLeaveAPartOfABatchToEveryKindBehindThem) {
  OperationQueues queues = Make(/*max_queued=*/1000, /*max_batch=*/16);
  for (int i = 0; i < 100; ++i) {
    queues.Push(Completion(absl::StrCat("completed-", i)));
    queues.Push(Queue(QueueKind::kRelease, ReleaseNamed(absl::StrCat("released-", i), Uuid())));
    queues.Push(Queue(QueueKind::kExtend, ExtendNamed(absl::StrCat("extended-", i), Uuid())));
    queues.Push(Reservation(absl::StrCat("reserved-", i)));
  }
  OperationBatch batch = TakeAll(queues);
  EXPECT_THAT(batch.of(QueueKind::kComplete), SizeIs(13));
  EXPECT_THAT(batch.of(QueueKind::kRelease), SizeIs(1));
  EXPECT_THAT(batch.of(QueueKind::kExtend), SizeIs(1));
  EXPECT_THAT(batch.of(QueueKind::kReserve), SizeIs(1));
}

TEST_F(OperationQueuesTest, LargeRepliesOfABatchAreBounded) {
  const std::string large(OperationQueues::kMaxBatchBytes / 4, 'b');
  OperationQueues queues = Make(/*max_queued=*/1000, /*max_batch=*/256);
  for (int i = 0; i < 10; ++i) {
    queues.Push(
        Queue(QueueKind::kComplete, CompleteNamed(absl::StrCat("completed-", i), Uuid(), large)));
    queues.Push(Queue(QueueKind::kExtend, ExtendNamed(absl::StrCat("extended-", i), Uuid())));
    queues.Push(Reservation(absl::StrCat("reserved-", i)));
  }
  OperationBatch batch = TakeAll(queues);
  EXPECT_THAT(batch.of(QueueKind::kComplete), SizeIs(4)) << "one exceeds it";
  EXPECT_THAT(batch.of(QueueKind::kExtend), SizeIs(10));
  EXPECT_THAT(batch.of(QueueKind::kReserve), SizeIs(10));
  EXPECT_TRUE(queues.LeftLarge());
  TakeAll(queues);
  EXPECT_THAT(TakeAll(queues).of(QueueKind::kComplete), SizeIs(2));
  EXPECT_FALSE(queues.LeftLarge());
}

TEST_F(OperationQueuesTest, LargeRepliesOfOneNamespaceKeepNoOtherOnesOutOfABatch) {
  const std::string large(2 * OperationQueues::kMaxBatchBytes, 'b');
  OperationQueues queues = Make(/*max_queued=*/1000, /*max_batch=*/256);
  for (int i = 0; i < 3; ++i) {
    queues.Push(
        Queue(QueueKind::kComplete, CompleteNamed(absl::StrCat("large-", i), Uuid(), large)));
  }
  for (int i = 0; i < 100; ++i) queues.Push(CompletionIn("calm", absl::StrCat("record-", i)));
  OperationBatch batch = TakeAll(queues);
  EXPECT_THAT(batch.of(QueueKind::kComplete), SizeIs(1 + 100));
}

// Only completions are bounded by their bytes.
TEST_F(OperationQueuesTest, TheLargestOperationsOfOtherKindsFitIntoABatch) {
  ReserveOp largest = ReserveNamed("record");
  largest.key = {
      std::string(limits::kMaxNamespaceBytes, 'n'), std::string(limits::kMaxScopeBytes, 's'),
      std::string(limits::kMaxOperationBytes, 'o'), std::string(limits::kMaxKeyBytes, 'k')};
  largest.parent = largest.key;
  largest.fingerprints.assign(limits::kMaxFingerprints,
                              {1, std::string(limits::kMaxDigestBytes, 'd')});
  for (std::size_t i = 0; i < limits::kMaxLabels; ++i) {
    const std::string number = absl::StrCat(100 + i);
    largest.labels[number + std::string(limits::kMaxLabelKeyBytes - number.size(), 'l')] =
        std::string(limits::kMaxLabelValueBytes, 'v');
  }
  ExtendOp extension = ExtendNamed("record", Uuid());
  extension.checkpoint = std::string(limits::kMaxCheckpointBytes, 'c');
  const std::size_t bytes = std::max(WeightOf(largest), WeightOf(extension));
  EXPECT_LE(limits::kMaxBatch * bytes, OperationQueues::kMaxBatchBytes);
}

TEST_F(OperationQueuesTest, ANamespaceWithLessThanItsShareIsAdmittedToAFullQueue) {
  OperationQueues queues = Make(/*max_queued=*/8, /*max_batch=*/10);
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(TryPush(queues, ReservationIn("many", absl::StrCat("record-", i))));
  }
  EXPECT_FALSE(TryPush(queues, ReservationIn("many", "ninth")));
  EXPECT_TRUE(TryPush(queues, ReservationIn("few", "first")));
  EXPECT_TRUE(TryPush(queues, ReservationIn("few", "second")));
  EXPECT_FALSE(TryPush(queues, ReservationIn("few", "third"))) << "the reserve is used up";
}

TEST_F(OperationQueuesTest, OperationsHoldTheirBytesOfTheBudget) {
  OperationQueues queues = Make(/*max_queued=*/4, /*max_batch=*/10);
  QueuedPtr first = Reservation("first");
  const std::size_t bytes = first->bytes;
  EXPECT_TRUE(TryPush(queues, std::move(first)));
  EXPECT_EQ(budget_.held(), bytes);
  OperationBatch batch = TakeAll(queues);
  queues.PutBack(std::move(batch.of(QueueKind::kReserve)));
  EXPECT_EQ(budget_.held(), bytes) << "it was counted before";
  batch = TakeAll(queues);
  batch.of(QueueKind::kReserve).clear();
  EXPECT_EQ(budget_.held(), 0u);
}

TEST_F(OperationQueuesTest, ARefusedOperationHoldsNothing) {
  OperationQueues queues = Make(/*max_queued=*/1, /*max_batch=*/10);
  EXPECT_TRUE(TryPush(queues, Reservation("first")));
  const std::size_t held = budget_.held();
  EXPECT_FALSE(TryPush(queues, Reservation("second")));
  EXPECT_EQ(budget_.held(), held);
}

TEST_F(OperationQueuesTest, ABatchHasRoomForCompletionsFirst) {
  OperationQueues queues = Make(/*max_queued=*/10, /*max_batch=*/2);
  queues.Push(Reservation("reserved"));
  queues.Push(Completion("completed"));
  queues.Push(Queue(QueueKind::kRelease, ReleaseNamed("released", Uuid())));
  OperationBatch batch = TakeAll(queues);
  EXPECT_THAT(Ids(batch.of(QueueKind::kComplete)), ElementsAre(IdNamed("completed")));
  EXPECT_THAT(Ids(batch.of(QueueKind::kRelease)), ElementsAre(IdNamed("released")));
  EXPECT_THAT(batch.of(QueueKind::kReserve), IsEmpty());
  EXPECT_EQ(batch.queues(), 2u);
  EXPECT_EQ(queues.size(), 1u);
}

TEST_F(OperationQueuesTest, KindsBehindReservationsHaveAnEighthEach) {
  OperationQueues queues = Make(/*max_queued=*/1000, /*max_batch=*/16);
  for (int i = 0; i < 100; ++i) {
    queues.Push(Reservation(absl::StrCat("record-", i)));
    queues.Push(Queue(QueueKind::kGet, GetNamed(absl::StrCat("record-", i))));
    queues.Push(Queue(QueueKind::kReserveForWaiter, ReserveNamed(absl::StrCat("waits-", i))));
  }
  OperationBatch batch = TakeAll(queues);
  EXPECT_THAT(batch.of(QueueKind::kReserve), SizeIs(12));
  EXPECT_THAT(batch.of(QueueKind::kReserveForWaiter), SizeIs(2));
  EXPECT_THAT(batch.of(QueueKind::kGet), SizeIs(2));
}

TEST_F(OperationQueuesTest, ALaneLeavesAlone) {
  OperationQueues queues = Make(/*max_queued=*/10, /*max_batch=*/10);
  queues.Push(Reservation("durable"));
  queues.Push(Queue(QueueKind::kReserveRelaxed, ReserveNamed("relaxed")));
  EXPECT_EQ(queues.SizeOf(Lane::kDurable), 1u);
  EXPECT_EQ(queues.SizeOf(Lane::kRelaxed), 1u);
  OperationBatch relaxed = queues.Take({/*durable=*/false, /*relaxed=*/true}, kNow, unwanted_);
  EXPECT_THAT(Ids(relaxed.of(QueueKind::kReserveRelaxed)), ElementsAre(IdNamed("relaxed")));
  EXPECT_EQ(relaxed.queues(), 1u);
  OperationBatch durable = queues.Take({/*durable=*/true, /*relaxed=*/false}, kNow, unwanted_);
  EXPECT_THAT(Ids(durable.of(QueueKind::kReserve)), ElementsAre(IdNamed("durable")));
  EXPECT_EQ(queues.size(), 0u);
}

TEST_F(OperationQueuesTest, ReservationsFollowOneOfTheSameRequest) {
  OperationQueues queues = Make(/*max_queued=*/10, /*max_batch=*/10);
  for (const char request : {'a', 'a', 'b', 'a'}) queues.Push(Reservation("hot", request));
  OperationBatch batch = TakeAll(queues);
  ASSERT_THAT(batch.of(QueueKind::kReserve), SizeIs(1));
  EXPECT_THAT(batch.of(QueueKind::kReserve)[0]->followers, SizeIs(1));
  EXPECT_EQ(queues.size(), 2u) << "another request ends the line of followers";
}

TEST_F(OperationQueuesTest, FollowersAreBoundedByABatch) {
  OperationQueues queues = Make(/*max_queued=*/10, /*max_batch=*/2);
  for (int i = 0; i < 5; ++i) queues.Push(Reservation("hot"));
  OperationBatch batch = TakeAll(queues);
  ASSERT_THAT(batch.of(QueueKind::kReserve), SizeIs(1));
  EXPECT_THAT(batch.of(QueueKind::kReserve)[0]->followers, SizeIs(2));
  EXPECT_EQ(queues.size(), 2u);
}

TEST_F(OperationQueuesTest, UnwantedOperationsTakeNoPlace) {
  OperationQueues queues = Make(/*max_queued=*/10, /*max_batch=*/1);
  const LeftCaller left;
  QueuedPtr of_left = Reservation("left");
  of_left->caller = &left;
  queues.Push(Queue(QueueKind::kReserve, ReserveNamed("hot"), kNow));
  queues.Push(std::move(of_left));
  queues.Push(Reservation("hot"));
  OperationBatch batch = queues.Take({}, kNow, unwanted_);
  EXPECT_THAT(Ids(batch.of(QueueKind::kReserve)), ElementsAre(IdNamed("hot")));
  EXPECT_EQ(Ids(unwanted_), std::vector<RecordId>{IdNamed("hot")});
  batch = queues.Take({}, kNow, unwanted_);
  EXPECT_EQ(batch.queues(), 0u);
  EXPECT_THAT(Ids(unwanted_), ElementsAre(IdNamed("hot"), IdNamed("left")));
  EXPECT_EQ(queues.size(), 0u);
}

TEST_F(OperationQueuesTest, OperationsReturnToTheirPlaces) {
  OperationQueues queues = Make(/*max_queued=*/4, /*max_batch=*/1);
  const QueuedOperation* first = nullptr;
  {
    QueuedPtr queued = Reservation("hot", 'a');
    first = queued.get();
    queues.Push(std::move(queued));
  }
  queues.Push(Reservation("hot", 'b'));
  OperationBatch batch = TakeAll(queues);
  for (int i = 0; i < 4; ++i) queues.Push(Reservation(absl::StrCat("record-", i)));
  queues.PutBack(std::move(batch.of(QueueKind::kReserve)));
  EXPECT_EQ(queues.size(), 6u) << "also if there is no room";
  batch = TakeAll(queues);
  ASSERT_THAT(batch.of(QueueKind::kReserve), SizeIs(1));
  EXPECT_EQ(batch.of(QueueKind::kReserve)[0].get(), first);
}

TEST_F(OperationQueuesTest, TheOnlyKind) {
  OperationQueues queues = Make(/*max_queued=*/10, /*max_batch=*/10);
  EXPECT_EQ(queues.OnlyKind(), std::nullopt);
  queues.Push(Reservation("first"));
  queues.Push(Reservation("second"));
  EXPECT_EQ(queues.OnlyKind(), QueueKind::kReserve);
  queues.Push(Completion("first"));
  EXPECT_EQ(queues.OnlyKind(), std::nullopt);
}

}  // namespace
}  // namespace idempotency::internal
