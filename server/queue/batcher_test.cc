#include "server/queue/batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/answer_kind.h"
#include "core/testing/answers.h"
#include "core/testing/manual_clock.h"
#include "grpc_idempotency/errors.h"
#include "server/queue/answer_batch_scope.h"
#include "server/store/limits.h"
#include "server/store/memory/memory_store.h"
#include "server/store/testing/operations.h"
#include "server/testing/counting_observer.h"
#include "server/testing/gated_store.h"
#include "tracing/testing/kept_spans.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Counts = CountingObserver::Counts;

constexpr Batcher::Deadline kNoDeadline = Batcher::kNoDeadline;

Batcher::ReserveDone ReserveSink(Answers<absl::StatusOr<Verdict>>& answers) {
  return [&answers](absl::StatusOr<Verdict> answer, const ReserveOp&) {
    answers.Add(std::move(answer));
  };
}

CompleteOp In(std::string_view name_space, CompleteOp op) {
  op.key.name_space = std::string(name_space);
  op.id = RecordIdFor(op.key);
  return op;
}

class BatcherTest : public ::testing::Test {
 protected:
  // The workers can only be joined when the store lets its calls return.
  ~BatcherTest() override { store_.Open(); }

  Batcher& Make(std::size_t max_queued = 1000, std::size_t max_batch = 256, int threads = 1) {
    BatcherOptions options;
    options.threads = threads;
    options.max_queued = max_queued;
    options.max_batch = max_batch;
    options.max_bytes = max_bytes_;
    options.min_batch_size = worth_a_batch_;
    options.max_linger = max_linger_;
    options.clock = &clock_;
    options.tracer = tracer_;
    options.store_system = "memory";
    batcher_ = std::make_unique<Batcher>(store_, observer_, options);
    return *batcher_;
  }

  // One worker, inside the store with a call of its own, until Open().
  void OccupyWorker() {
    store_.Shut();
    batcher_->Reserve(ReserveNamed("occupies"), kNoDeadline, ReserveSink(occupied_));
    ASSERT_TRUE(store_.AwaitCalls(1));
  }

  Uuid Token(std::string_view name) {
    return std::get<Reserved>(*memory_.Reserve({ReserveNamed(name)})[0]).token;
  }

  Tracer* tracer_ = nullptr;
  std::size_t max_bytes_ = limits::kDefaultQueuedBytes;
  std::size_t worth_a_batch_ = BatcherOptions().min_batch_size;
  std::chrono::steady_clock::duration max_linger_ = BatcherOptions().max_linger;
  ManualClock clock_;
  MemoryStore memory_{clock_};
  GatedStore store_{memory_};
  CountingObserver observer_;
  Answers<absl::StatusOr<Verdict>> occupied_;
  Answers<absl::StatusOr<Verdict>> verdicts_;
  Answers<absl::StatusOr<Completion>> completions_;
  Answers<absl::StatusOr<Extension>> extensions_;
  Answers<absl::StatusOr<Record>> records_;
  Answers<absl::Status> releases_;
  // Last: its callbacks use the others.
  std::unique_ptr<Batcher> batcher_;
};

TEST_F(BatcherTest, ALoneOperationGoesToTheStoreAtOnce) {
  Make().Reserve(ReserveNamed("one"), kNoDeadline, ReserveSink(verdicts_));

  const auto answers = verdicts_.Await(1);
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_NE(As<Reserved>(answers[0]), nullptr);
}

TEST_F(BatcherTest, OperationsGatherWhileTheWorkerIsBusy) {
  Batcher& batcher = Make();
  OccupyWorker();
  for (int i = 0; i < 100; ++i) {
    batcher.Reserve(ReserveNamed("record-" + std::to_string(i)), kNoDeadline,
                    ReserveSink(verdicts_));
  }
  store_.Open();

  EXPECT_THAT(verdicts_.Await(100), SizeIs(100));
  const auto calls = store_.calls();
  ASSERT_THAT(calls, SizeIs(2));
  EXPECT_THAT(calls[1].ids, SizeIs(100));
}

TEST_F(BatcherTest, FewOperationsShareTheNextBatchAlthoughAWorkerIsFree) {
  max_linger_ = std::chrono::hours(1);
  worth_a_batch_ = 8;
  Batcher& batcher = Make(/*max_queued=*/1000, /*max_batch=*/256, /*threads=*/2);
  OccupyWorker();
  for (int i = 0; i < 7; ++i) {
    batcher.Reserve(ReserveNamed("record-" + std::to_string(i)), kNoDeadline,
                    ReserveSink(verdicts_));
  }
  // The free worker has time to take them.
  EXPECT_FALSE(store_.AwaitCalls(2, std::chrono::milliseconds(100)));
  store_.Open();

  EXPECT_THAT(verdicts_.Await(7), SizeIs(7));
  const auto calls = store_.calls();
  ASSERT_THAT(calls, SizeIs(2));
  EXPECT_THAT(calls[1].ids, SizeIs(7));
}

TEST_F(BatcherTest, AFullBatchDoesNotWait) {
  max_linger_ = std::chrono::hours(1);
  worth_a_batch_ = 8;
  Batcher& batcher = Make(/*max_queued=*/1000, /*max_batch=*/256, /*threads=*/2);
  OccupyWorker();
  for (int i = 0; i < 8; ++i) {
    batcher.Reserve(ReserveNamed("record-" + std::to_string(i)), kNoDeadline,
                    ReserveSink(verdicts_));
  }

  ASSERT_TRUE(store_.AwaitCalls(2)) << "the first is still in the store";
  EXPECT_THAT(store_.calls()[1].ids, SizeIs(8));
  store_.Open();
}

TEST_F(BatcherTest, ALongCallDelaysNoOther) {
  max_linger_ = std::chrono::milliseconds(1);
  Batcher& batcher = Make(/*max_queued=*/1000, /*max_batch=*/256, /*threads=*/2);
  OccupyWorker();
  batcher.Reserve(ReserveNamed("another"), kNoDeadline, ReserveSink(verdicts_));

  ASSERT_TRUE(store_.AwaitCalls(2)) << "the first is still in the store";
  store_.Open();
  EXPECT_THAT(verdicts_.Await(1), SizeIs(1));
}

TEST_F(BatcherTest, ARelaxedReservationWaitsForNoCommit) {
  max_linger_ = std::chrono::hours(1);
  worth_a_batch_ = 8;
  Batcher& batcher = Make(/*max_queued=*/1000, /*max_batch=*/256, /*threads=*/2);
  OccupyWorker();
  batcher.Reserve(ReserveNamed("durable"), kNoDeadline, ReserveSink(verdicts_));
  ReserveOp relaxed = ReserveNamed("relaxed");
  relaxed.relaxed = true;
  batcher.Reserve(relaxed, kNoDeadline, ReserveSink(verdicts_));

  ASSERT_TRUE(store_.AwaitCalls(2)) << "the first is still in the store";
  EXPECT_THAT(store_.calls()[1].ids, ElementsAre(relaxed.id)) << "the durable one gathers";
  store_.Open();
  EXPECT_THAT(verdicts_.Await(2), SizeIs(2));
}

TEST_F(BatcherTest, RelaxedReservationsAreACallOfTheirOwnAndTheFirst) {
  Batcher& batcher = Make();
  OccupyWorker();
  int sent = 0;
  std::vector<RecordId> relaxed_ids;
  for (const bool relaxed : {false, true, false, true}) {
    ReserveOp op = ReserveNamed(std::to_string(sent++));
    op.relaxed = relaxed;
    if (relaxed) relaxed_ids.push_back(op.id);
    batcher.Reserve(op, kNoDeadline, ReserveSink(verdicts_));
  }
  store_.Open();

  EXPECT_THAT(verdicts_.Await(4), SizeIs(4));
  const auto calls = store_.calls();
  ASSERT_THAT(calls, SizeIs(3));
  EXPECT_THAT(calls[1].ids, ::testing::UnorderedElementsAreArray(relaxed_ids));
  EXPECT_THAT(calls[2].ids, SizeIs(2));
}

TEST_F(BatcherTest, RelaxedReservationsGatherWhileOthersOfThemAreAtTheStore) {
  max_linger_ = std::chrono::hours(1);
  worth_a_batch_ = 8;
  Batcher& batcher = Make(/*max_queued=*/1000, /*max_batch=*/256, /*threads=*/2);
  const auto reserve = [&](const std::string& name) {
    ReserveOp op = ReserveNamed(name);
    op.relaxed = true;
    batcher.Reserve(op, kNoDeadline, ReserveSink(verdicts_));
  };
  store_.Shut();
  reserve("first");
  ASSERT_TRUE(store_.AwaitCalls(1));
  for (int i = 0; i < 7; ++i) reserve(std::to_string(i));
  EXPECT_FALSE(store_.AwaitCalls(2, std::chrono::milliseconds(100)));
  store_.Open();
  EXPECT_THAT(verdicts_.Await(8), SizeIs(8));
  EXPECT_THAT(store_.calls()[1].ids, SizeIs(7));
}

TEST_F(BatcherTest, AWorkerLingersForTheLaneThatTheLastOneLeft) {
  max_linger_ = std::chrono::milliseconds(200);
  Batcher& batcher = Make(/*max_queued=*/1000, /*max_batch=*/256, /*threads=*/4);
  const auto reserve = [&](const std::string& name, bool relaxed) {
    ReserveOp op = ReserveNamed(name);
    op.relaxed = relaxed;
    batcher.Reserve(op, kNoDeadline, ReserveSink(verdicts_));
  };
  store_.Shut();
  reserve("relaxed at the store", true);
  ASSERT_TRUE(store_.AwaitCalls(1));
  // The durable lane's linger ends later.
  ASSERT_FALSE(store_.AwaitCalls(2, std::chrono::milliseconds(100)));
  reserve("durable at the store", false);
  ASSERT_TRUE(store_.AwaitCalls(2));
  reserve("relaxed", true);
  reserve("durable", false);
  EXPECT_TRUE(store_.AwaitCalls(4)) << "no call ends";
  store_.Open();
  EXPECT_THAT(verdicts_.Await(4), SizeIs(4));
}

TEST_F(BatcherTest, RelaxedReservationsLeaveRoomToDurableOnesAndHaveAShare) {
  Batcher& batcher = Make(/*max_queued=*/1000, /*max_batch=*/16);
  OccupyWorker();
  for (int i = 0; i < 64; ++i) {
    ReserveOp op = ReserveNamed(std::to_string(i));
    op.relaxed = i % 2 == 0;
    batcher.Reserve(op, kNoDeadline, ReserveSink(verdicts_));
  }
  store_.Open();
  EXPECT_THAT(verdicts_.Await(64), SizeIs(64));
  const auto calls = store_.calls();
  ASSERT_GE(calls.size(), 3u);
  EXPECT_THAT(calls[1].ids, SizeIs(2)) << "an eighth, relaxed";
  EXPECT_THAT(calls[2].ids, SizeIs(14)) << "durable";
}

TEST_F(BatcherTest, ABatchHasALimit) {
  Batcher& batcher = Make(/*max_queued=*/1000, /*max_batch=*/16);
  OccupyWorker();
  for (int i = 0; i < 40; ++i) {
    batcher.Reserve(ReserveNamed("record-" + std::to_string(i)), kNoDeadline,
                    ReserveSink(verdicts_));
  }
  store_.Open();

  EXPECT_THAT(verdicts_.Await(40), SizeIs(40));
  const auto calls = store_.calls();
  ASSERT_THAT(calls, SizeIs(4));
  EXPECT_THAT(calls[1].ids, SizeIs(16));
  EXPECT_THAT(calls[2].ids, SizeIs(16));
  EXPECT_THAT(calls[3].ids, SizeIs(8));
}

TEST_F(BatcherTest, CompletionsGoFirst) {
  const Uuid completed = Token("completed");
  const Uuid released = Token("released");
  const Uuid extended = Token("extended");
  Batcher& batcher = Make(/*max_queued=*/1000, /*max_batch=*/4);
  OccupyWorker();
  batcher.Get(GetNamed("extended"), kNoDeadline, records_.Sink());
  batcher.Reserve(ReserveNamed("new"), kNoDeadline, ReserveSink(verdicts_));
  batcher.Extend(ExtendNamed("extended", extended), kNoDeadline, extensions_.Sink());
  batcher.Release(ReleaseNamed("released", released), kNoDeadline, releases_.Sink());
  batcher.Complete(CompleteNamed("completed", completed), kNoDeadline, completions_.Sink());
  store_.Open();

  EXPECT_THAT(records_.Await(1), SizeIs(1));
  std::vector<OperationKind> order;
  for (const GatedStore::Call& call : store_.calls()) order.push_back(call.kind);
  EXPECT_THAT(
      order, ElementsAre(OperationKind::kReserve, OperationKind::kComplete, OperationKind::kReserve,
                         OperationKind::kRelease, OperationKind::kExtend, OperationKind::kGet));
  EXPECT_TRUE(completions_.Await(1)[0].ok());
  EXPECT_TRUE(releases_.Await(1)[0].ok());
  EXPECT_TRUE(extensions_.Await(1)[0].ok());
}

TEST_F(BatcherTest, ACallHoldsOneOperationPerRecordAndKeepsTheirOrder) {
  Batcher& batcher = Make();
  OccupyWorker();
  for (int i = 0; i < 3; ++i) {
    batcher.Reserve(ReserveNamed("hot"), kNoDeadline, ReserveSink(verdicts_));
  }
  batcher.Reserve(ReserveNamed("other"), kNoDeadline, ReserveSink(verdicts_));
  store_.Open();

  const auto answers = verdicts_.Await(4);
  ASSERT_THAT(answers, SizeIs(4));
  EXPECT_NE(As<Reserved>(answers[0]), nullptr) << "the first of the hot record";
  EXPECT_NE(As<Reserved>(answers[1]), nullptr) << "the other record";
  EXPECT_NE(As<InFlight>(answers[2]), nullptr);
  EXPECT_NE(As<InFlight>(answers[3]), nullptr);
  for (const GatedStore::Call& call : store_.calls()) {
    std::vector<RecordId> ids = call.ids;
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
  }
}

TEST_F(BatcherTest, ReplaysOfOneRecordShareARead) {
  Batcher& batcher = Make();
  ASSERT_TRUE(memory_.Complete({CompleteNamed("hot", Token("hot"), "paid")})[0].ok());
  OccupyWorker();
  for (int i = 0; i < 50; ++i) {
    batcher.Reserve(ReserveNamed("hot"), kNoDeadline, ReserveSink(verdicts_));
  }
  // For another request: it is compared by itself.
  Answers<absl::StatusOr<Verdict>> other;
  batcher.Reserve(ReserveNamed("hot", 'b'), kNoDeadline, ReserveSink(other));
  store_.Open();

  const auto answers = verdicts_.Await(50);
  ASSERT_THAT(answers, SizeIs(50));
  for (const auto& answer : answers) {
    ASSERT_NE(As<Replay>(answer), nullptr);
    EXPECT_EQ(As<Replay>(answer)->reply.bytes, As<Replay>(answers[0])->reply.bytes);
  }
  EXPECT_NE(As<Mismatch>(other.Await(1)[0]), nullptr);
  const auto calls = store_.calls();
  ASSERT_THAT(calls, SizeIs(3));
  EXPECT_THAT(calls[1].ids, SizeIs(1));
  batcher.Close();
  EXPECT_EQ(batcher.budget().held(), 0u);
}

// Only one gets the grant, and the others find it.
TEST_F(BatcherTest, OnlyAReplayIsShared) {
  Batcher& batcher = Make();
  OccupyWorker();
  for (int i = 0; i < 3; ++i) {
    batcher.Reserve(ReserveNamed("hot"), kNoDeadline, ReserveSink(verdicts_));
  }
  store_.Open();

  const auto answers = verdicts_.Await(3);
  ASSERT_THAT(answers, SizeIs(3));
  EXPECT_EQ(std::count_if(answers.begin(), answers.end(),
                          [](const auto& answer) { return As<Reserved>(answer) != nullptr; }),
            1);
  EXPECT_EQ(std::count_if(answers.begin(), answers.end(),
                          [](const auto& answer) { return As<InFlight>(answer) != nullptr; }),
            2);
}

TEST_F(BatcherTest, AReplayThatIsLargeIsReadForEachCaller) {
  Batcher& batcher = Make();
  const std::string large(65 * 1024, 'x');
  ASSERT_TRUE(memory_.Complete({CompleteNamed("hot", Token("hot"), large)})[0].ok());
  OccupyWorker();
  for (int i = 0; i < 3; ++i) {
    batcher.Reserve(ReserveNamed("hot"), kNoDeadline, ReserveSink(verdicts_));
  }
  store_.Open();
  EXPECT_THAT(verdicts_.Await(3), SizeIs(3));
  EXPECT_THAT(store_.calls(), SizeIs(4));
}

TEST_F(BatcherTest, AFailureIsSharedByNone) {
  Batcher& batcher = Make();
  ASSERT_TRUE(memory_.Complete({CompleteNamed("hot", Token("hot"), "paid")})[0].ok());
  OccupyWorker();
  for (int i = 0; i < 2; ++i) {
    batcher.Reserve(ReserveNamed("hot"), kNoDeadline, ReserveSink(verdicts_));
  }
  store_.FailOn(OperationKind::kReserve, IdNamed("hot"), GatedStore::Fate::kNeverHappens);
  store_.Open();
  for (const auto& answer : verdicts_.Await(2)) {
    EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable);
  }
  EXPECT_THAT(store_.calls(), SizeIs(3)) << "each was sent by itself";
}

// Otherwise one that arrives during each failed call would keep it from ever being answered.
TEST_F(BatcherTest, AReservationThatFollowedAFailedOneIsTheNext) {
  Batcher& batcher = Make();
  OccupyWorker();
  store_.FailOn(OperationKind::kReserve, IdNamed("hot"), GatedStore::Fate::kNeverHappens);
  Answers<absl::StatusOr<Verdict>> second;
  Answers<absl::StatusOr<Verdict>> third;
  batcher.Reserve(ReserveNamed("hot"), kNoDeadline, ReserveSink(verdicts_));
  batcher.Reserve(ReserveNamed("hot"), kNoDeadline, ReserveSink(second));
  store_.Admit();
  ASSERT_TRUE(store_.AwaitCalls(2));
  batcher.Reserve(ReserveNamed("hot"), kNoDeadline, ReserveSink(third));
  store_.Admit();
  ASSERT_TRUE(store_.AwaitCalls(3));
  EXPECT_THAT(verdicts_.Await(1), SizeIs(1));
  store_.Admit();

  EXPECT_THAT(second.Await(1), SizeIs(1));
  ASSERT_TRUE(store_.AwaitCalls(4));
  EXPECT_EQ(third.size(), 0u);
  store_.Open();
  EXPECT_THAT(third.Await(1), SizeIs(1));
  batcher.Close();
}

TEST_F(BatcherTest, AFullQueueRefusesReservationsAndReadsBeforeCompletions) {
  const Uuid token = Token("running");
  Batcher& batcher = Make(/*max_queued=*/8);
  OccupyWorker();
  for (int i = 0; i < 9; ++i) {
    batcher.Reserve(ReserveNamed("record-" + std::to_string(i)), kNoDeadline,
                    ReserveSink(verdicts_));
  }
  batcher.Get(GetNamed("running"), kNoDeadline, records_.Sink());

  // Refused at once, with a retry delay.
  ASSERT_EQ(verdicts_.size(), 1u);
  const absl::Status refused = verdicts_.Await(1)[0].status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused), Reason::kOverloaded);
  EXPECT_GT(DetailsOf(refused).retry_delay, absl::ZeroDuration());
  ASSERT_EQ(records_.size(), 1u);
  EXPECT_EQ(ReasonOf(records_.Await(1)[0].status()), Reason::kOverloaded);

  // There is room for one completion, and not for two.
  batcher.Complete(CompleteNamed("running", token), kNoDeadline, completions_.Sink());
  EXPECT_EQ(completions_.size(), 0u);
  batcher.Extend(ExtendNamed("running", token), kNoDeadline, extensions_.Sink());
  ASSERT_EQ(extensions_.size(), 1u);
  EXPECT_EQ(ReasonOf(extensions_.Await(1)[0].status()), Reason::kOverloaded);
  EXPECT_EQ(observer_.counts().shed, 3u);

  store_.Open();
  EXPECT_THAT(verdicts_.Await(9), SizeIs(9));
  EXPECT_TRUE(completions_.Await(1)[0].ok());
  EXPECT_EQ(observer_.counts().queued, 0u);
}

TEST_F(BatcherTest, AnOverdueOperationDoesNotReachTheStore) {
  Batcher& batcher = Make();
  OccupyWorker();
  batcher.Reserve(ReserveNamed("overdue"), clock_.Monotonic() + std::chrono::seconds(1),
                  ReserveSink(verdicts_));
  batcher.Reserve(ReserveNamed("in-time"), clock_.Monotonic() + std::chrono::seconds(3),
                  ReserveSink(verdicts_));
  clock_.Advance(absl::Seconds(1));
  store_.Open();

  const auto answers = verdicts_.Await(2);
  ASSERT_THAT(answers, SizeIs(2));
  EXPECT_EQ(ReasonOf(answers[0].status()), Reason::kStoreUnavailable);
  EXPECT_NE(As<Reserved>(answers[1]), nullptr);
  EXPECT_EQ(memory_.Get({GetNamed("overdue")})[0].status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(observer_.counts().overdue, 1u);
}

// The caller of a reservation, until Leave().
class LeavingCaller final : public Batcher::ReserveCaller {
 public:
  bool HasLeft() const override { return left_; }
  void Leave() { left_ = true; }

 private:
  std::atomic<bool> left_{false};
};

// It may have repeated the call elsewhere and have its answer: a grant would hold the record for
// nobody.
TEST_F(BatcherTest, AReservationWhoseCallerHasLeftDoesNotReachTheStore) {
  Batcher& batcher = Make();
  OccupyWorker();
  LeavingCaller leaves;
  LeavingCaller waits;
  Answers<absl::StatusOr<Verdict>> left;
  batcher.Reserve(ReserveNamed("left"), kNoDeadline, ReserveSink(left), nullptr, std::nullopt,
                  &leaves);
  batcher.ReserveForWaiter(ReserveNamed("left-too"), kNoDeadline, ReserveSink(left), std::nullopt,
                           &leaves);
  batcher.Reserve(ReserveNamed("waits"), kNoDeadline, ReserveSink(verdicts_), nullptr, std::nullopt,
                  &waits);
  leaves.Leave();
  store_.Open();

  EXPECT_NE(As<Reserved>(verdicts_.Await(1)[0]), nullptr);
  for (const auto& answer : left.Await(2)) EXPECT_TRUE(absl::IsCancelled(answer.status()));
  for (const char* const name : {"left", "left-too"}) {
    EXPECT_EQ(memory_.Get({GetNamed(name)})[0].status().code(), absl::StatusCode::kNotFound);
  }
  EXPECT_EQ(observer_.counts().overdue, 0u);
  batcher.Close();
  EXPECT_EQ(batcher.budget().held(), 0u);
}

// Calls for other kinds of a batch may take long, as while the store fails over.
TEST_F(BatcherTest, AnOperationOfABatchIsExaminedWhenItsTurnComes) {
  Batcher& batcher = Make();
  OccupyWorker();
  LeavingCaller leaves;
  Answers<absl::StatusOr<Verdict>> left;
  Answers<absl::StatusOr<Verdict>> late;
  ReserveOp relaxed = ReserveNamed("relaxed");
  relaxed.relaxed = true;
  batcher.Reserve(relaxed, kNoDeadline, ReserveSink(verdicts_));
  for (const char* const name : {"left", "hot"}) {
    batcher.Reserve(ReserveNamed(name), kNoDeadline, ReserveSink(left), nullptr, std::nullopt,
                    &leaves);
  }
  batcher.Reserve(ReserveNamed("hot"), kNoDeadline, ReserveSink(verdicts_));
  batcher.Reserve(ReserveNamed("late"), clock_.Monotonic() + std::chrono::seconds(1),
                  ReserveSink(late));
  batcher.ReserveForWaiter(ReserveNamed("left-too"), kNoDeadline, ReserveSink(left), std::nullopt,
                           &leaves);
  store_.Admit();
  ASSERT_TRUE(store_.AwaitCalls(2));
  leaves.Leave();
  clock_.Advance(absl::Seconds(1));
  store_.Open();

  for (const auto& answer : left.Await(3)) EXPECT_TRUE(absl::IsCancelled(answer.status()));
  EXPECT_EQ(ReasonOf(late.Await(1)[0].status()), Reason::kStoreUnavailable);
  // The one that waited behind a reservation of its record takes its place.
  for (const auto& answer : verdicts_.Await(2)) EXPECT_NE(As<Reserved>(answer), nullptr);
  for (const char* const name : {"left", "left-too", "late"}) {
    EXPECT_EQ(memory_.Get({GetNamed(name)})[0].status().code(), absl::StatusCode::kNotFound);
  }
  EXPECT_EQ(observer_.counts().overdue, 1u);
  batcher.Close();
  EXPECT_EQ(batcher.budget().held(), 0u);
}

// The first of its record fails at the store, and the follower would be the next to go there.
TEST_F(BatcherTest, AFollowerWhoseCallerHasLeftIsNotTheNext) {
  Batcher& batcher = Make();
  OccupyWorker();
  LeavingCaller leaves;
  Answers<absl::StatusOr<Verdict>> left;
  store_.FailOn(OperationKind::kReserve, IdNamed("hot"), GatedStore::Fate::kNeverHappens);
  batcher.Reserve(ReserveNamed("hot"), kNoDeadline, ReserveSink(verdicts_));
  batcher.Reserve(ReserveNamed("hot"), kNoDeadline, ReserveSink(left), nullptr, std::nullopt,
                  &leaves);
  store_.Admit();
  ASSERT_TRUE(store_.AwaitCalls(2));
  leaves.Leave();
  store_.Open();

  EXPECT_EQ(ReasonOf(verdicts_.Await(1)[0].status()), Reason::kStoreUnavailable);
  EXPECT_TRUE(absl::IsCancelled(left.Await(1)[0].status()));
  EXPECT_THAT(store_.calls(), SizeIs(2));
}

// A call holds one operation of a record: if those that are past their deadline took their turns,
// one that is in time would wait one call of a slow store for each of them.
TEST_F(BatcherTest, OverdueOperationsOfARecordKeepItsNewerOneFromNoCall) {
  Batcher& batcher = Make();
  OccupyWorker();
  const auto soon = clock_.Monotonic() + std::chrono::seconds(1);
  for (int i = 0; i < 3; ++i) {
    batcher.Reserve(ReserveNamed("hot"), soon, ReserveSink(verdicts_));
    batcher.Reserve(ReserveNamed("other"), kNoDeadline, ReserveSink(verdicts_));
  }
  batcher.Reserve(ReserveNamed("hot"), kNoDeadline, ReserveSink(verdicts_));
  clock_.Advance(absl::Seconds(1));
  store_.Open();

  ASSERT_THAT(verdicts_.Await(7), SizeIs(7));
  EXPECT_EQ(observer_.counts().overdue, 3u);
  const auto calls = store_.calls();
  ASSERT_THAT(calls, SizeIs(4)) << "that of the occupied worker, and one for each of the other";
  EXPECT_THAT(calls[1].ids, ElementsAre(IdNamed("hot"), IdNamed("other")));
}

TEST_F(BatcherTest, CloseAnswersWhatIsQueuedAndRefusesTheRest) {
  Batcher& batcher = Make();
  OccupyWorker();
  batcher.Reserve(ReserveNamed("queued"), kNoDeadline, ReserveSink(verdicts_));
  std::thread closer([&batcher] { batcher.Close(); });
  // It can only be refused once Close() has begun, so the test repeats it until it is.
  Answers<absl::StatusOr<Record>> refusals;
  while (refusals.size() == 0) {
    batcher.Get(GetNamed("late"), kNoDeadline, [&](absl::StatusOr<Record> answer) {
      if (ReasonOf(answer.status()) == Reason::kStoreUnavailable) refusals.Add(std::move(answer));
    });
    std::this_thread::yield();
  }
  EXPECT_EQ(verdicts_.size(), 0u);
  store_.Open();
  closer.join();

  ASSERT_EQ(verdicts_.size(), 1u);
  EXPECT_NE(As<Reserved>(verdicts_.Await(1)[0]), nullptr);
  EXPECT_GT(DetailsOf(refusals.Await(1)[0].status()).retry_delay, absl::ZeroDuration());
}

TEST_F(BatcherTest, WhatTheStoreLeavesForItsNextCallIsGivenAgain) {
  // Three of them weigh more than one call may.
  const std::string body(limits::kMaxBatchReplyBytes / 2 - 1024, 'b');
  for (int i = 0; i < 4; ++i) {
    const std::string name = "large-" + std::to_string(i);
    ASSERT_TRUE(memory_.Complete({CompleteNamed(name, Token(name), body)})[0].ok());
  }
  Batcher& batcher = Make();
  OccupyWorker();
  for (int i = 0; i < 4; ++i) {
    batcher.Reserve(ReserveNamed("large-" + std::to_string(i)), kNoDeadline,
                    ReserveSink(verdicts_));
  }
  store_.Open();

  const auto answers = verdicts_.Await(4);
  ASSERT_THAT(answers, SizeIs(4));
  for (const auto& answer : answers) EXPECT_NE(As<Replay>(answer), nullptr) << answer.status();
  const auto calls = store_.calls();
  ASSERT_THAT(calls, SizeIs(3));
  EXPECT_THAT(calls[1].ids, SizeIs(4));
  EXPECT_THAT(calls[2].ids, SizeIs(1));
}

TEST_F(BatcherTest, AGroupIsOneBatchAlsoForAnIdleWorker) {
  Batcher& batcher = Make(/*max_queued=*/1000, /*max_batch=*/256, /*threads=*/4);
  for (int round = 0; round < 20; ++round) {
    Batcher::Group group;
    for (int i = 0; i < 64; ++i) {
      const std::string name = std::to_string(round) + "/" + std::to_string(i);
      batcher.Reserve(ReserveNamed(name), kNoDeadline, ReserveSink(verdicts_), &group);
    }
    batcher.Submit(group);
    ASSERT_THAT(verdicts_.Await(64 * (round + 1)), SizeIs(64 * (round + 1)));
  }
  const auto calls = store_.calls();
  ASSERT_THAT(calls, SizeIs(20));
  for (const GatedStore::Call& call : calls) EXPECT_THAT(call.ids, SizeIs(64));
}

TEST_F(BatcherTest, TheAnswersOfACallAreGivenInOneScope) {
  // Records the end of a scope.
  class Flushes final : public AnswerBatchScope::Flushable {
   public:
    explicit Flushes(Answers<int>& flushed) : flushed_(flushed) {}
    void Flush() override { flushed_.Add(gathered); }
    int gathered = 0;

   private:
    Answers<int>& flushed_;
  };
  Answers<int> flushed;
  Batcher& batcher = Make();
  Batcher::Group group;
  for (int i = 0; i < 10; ++i) {
    batcher.Get(
        GetNamed("record-" + std::to_string(i)), kNoDeadline,
        [&flushed](const absl::StatusOr<Record>&) {
          AnswerBatchScope* const scope = AnswerBatchScope::Current();
          ASSERT_NE(scope, nullptr);
          if (scope->Find(&flushed) == nullptr) {
            scope->Add(&flushed, std::make_unique<Flushes>(flushed));
          }
          ++static_cast<Flushes*>(scope->Find(&flushed))->gathered;
        },
        &group);
  }
  batcher.Submit(group);
  EXPECT_THAT(flushed.Await(1), ElementsAre(10));
}

TEST_F(BatcherTest, NamespacesTakeTurnsAndCompletionsStillGoFirst) {
  const auto in = [](std::string_view name_space, int i) {
    ReserveOp op = ReserveNamed(std::to_string(i));
    op.key.name_space = std::string(name_space);
    op.id = RecordIdFor(op.key);
    return op;
  };
  const Uuid token = Token("completed");
  Batcher& batcher = Make(/*max_queued=*/1000, /*max_batch=*/8);
  OccupyWorker();
  for (int i = 0; i < 100; ++i) {
    batcher.Reserve(in("flood", i), kNoDeadline, ReserveSink(verdicts_));
  }
  for (const auto name : {"a", "b", "c"}) {
    for (int i = 0; i < 2; ++i) batcher.Reserve(in(name, i), kNoDeadline, ReserveSink(verdicts_));
  }
  batcher.Complete(CompleteNamed("completed", token), kNoDeadline, completions_.Sink());
  store_.Open();
  EXPECT_THAT(verdicts_.Await(106), SizeIs(106));

  const auto calls = store_.calls();
  ASSERT_GE(calls.size(), 4u);
  EXPECT_EQ(calls[1].kind, OperationKind::kComplete);
  // The rest of the first batch, and the next one.
  std::vector<RecordId> early = calls[2].ids;
  early.insert(early.end(), calls[3].ids.begin(), calls[3].ids.end());
  for (const auto name : {"a", "b", "c"}) {
    for (int i = 0; i < 2; ++i) EXPECT_THAT(early, ::testing::Contains(in(name, i).id));
  }
}

// Reservations of one namespace delay neither the reads of another nor callers that waited for a
// running attempt.
TEST_F(BatcherTest, ReadsAndWhatWaitersNeedAreInTheNextBatch) {
  Batcher& batcher = Make(/*max_queued=*/5000);
  const auto of = [](std::string_view name_space, std::string name) {
    ReserveOp op = ReserveNamed(name);
    op.key.name_space = std::string(name_space);
    op.id = RecordIdFor(op.key);
    return op;
  };
  OccupyWorker();
  for (int i = 0; i < 3000; ++i) {
    batcher.Reserve(of("busy", std::to_string(i)), kNoDeadline, ReserveSink(verdicts_));
  }
  const ReserveOp read = of("calm", "read");
  const ReserveOp waited = of("calm", "waited");
  const ReserveOp retried = of("calm", "retried");
  Answers<absl::StatusOr<Verdict>> retries;
  batcher.Get({read.id, read.key}, kNoDeadline, records_.Sink());
  batcher.GetForWaiter({waited.id, waited.key, true}, records_.Sink());
  batcher.ReserveForWaiter(retried, kNoDeadline, ReserveSink(retries));
  // The batch after the one that is at the store: its reservations, and these.
  for (int i = 0; i < 5; ++i) store_.Admit();
  EXPECT_THAT(records_.Await(2), SizeIs(2));
  ASSERT_THAT(retries.Await(1), SizeIs(1));
  EXPECT_NE(As<Reserved>(retries.Await(1)[0]), nullptr);
  EXPECT_LE(verdicts_.size(), limits::kMaxBatch) << "one batch";
  const auto calls = store_.calls();
  ASSERT_GE(calls.size(), 5u);
  EXPECT_EQ(calls[1].kind, OperationKind::kReserve);
  EXPECT_THAT(calls[1].ids, SizeIs(limits::kMaxBatch - 3)) << "what nobody needs is not kept free";
  store_.Open();
  EXPECT_THAT(verdicts_.Await(3000), SizeIs(3000));
}

TEST_F(BatcherTest, ReservationsLeaveAnEighthOfABatchToReads) {
  Batcher& batcher = Make(/*max_queued=*/5000, /*max_batch=*/64);
  OccupyWorker();
  for (int i = 0; i < 100; ++i) {
    batcher.Reserve(ReserveNamed(absl::StrCat("record-", i)), kNoDeadline, ReserveSink(verdicts_));
    const ReserveOp read = ReserveNamed(absl::StrCat("read-", i));
    batcher.Get({read.id, read.key}, kNoDeadline, records_.Sink());
  }
  for (int i = 0; i < 3; ++i) store_.Admit();
  EXPECT_THAT(records_.Await(8), SizeIs(8));
  const auto calls = store_.calls();
  ASSERT_GE(calls.size(), 3u);
  EXPECT_EQ(calls[1].kind, OperationKind::kReserve);
  EXPECT_THAT(calls[1].ids, SizeIs(56));
  EXPECT_EQ(calls[2].kind, OperationKind::kGet);
  EXPECT_THAT(calls[2].ids, SizeIs(8));
  store_.Open();
  EXPECT_THAT(verdicts_.Await(100), SizeIs(100));
  EXPECT_THAT(records_.Await(100), SizeIs(100));
}

TEST_F(BatcherTest, AFullQueueHasRoomForANamespaceThatHasLittleInIt) {
  Batcher& batcher = Make(/*max_queued=*/16);
  OccupyWorker();
  for (int i = 0; i < 20; ++i) {
    batcher.Reserve(ReserveNamed(std::to_string(i)), kNoDeadline, ReserveSink(verdicts_));
  }
  EXPECT_EQ(verdicts_.size(), 4u) << "refused";
  Answers<absl::StatusOr<Verdict>> others;
  ReserveOp other = ReserveNamed("other");
  other.key.name_space = "calm";
  other.id = RecordIdFor(other.key);
  batcher.Reserve(other, kNoDeadline, ReserveSink(others));
  EXPECT_EQ(others.size(), 0u);
  store_.Open();
  EXPECT_NE(As<Reserved>(others.Await(1)[0]), nullptr);
}

TEST_F(BatcherTest, TheBytesOfWhatIsQueuedAndDoneAreBounded) {
  const std::string body(1024 * 1024, 'b');
  std::vector<Uuid> tokens;
  for (int i = 0; i < 3; ++i) tokens.push_back(Token("record-" + std::to_string(i)));
  max_bytes_ = 5 * body.size();
  Batcher& batcher = Make();
  const auto complete = [&](int i) {
    batcher.Complete(CompleteNamed("record-" + std::to_string(i), tokens[i], body), kNoDeadline,
                     completions_.Sink());
  };
  // In the store, which counts as well.
  store_.Shut();
  complete(0);
  ASSERT_TRUE(store_.AwaitCalls(1));
  complete(1);
  Answers<absl::StatusOr<Completion>> others;
  for (const std::string name_space : {"second", "third"}) {
    batcher.Complete(In(name_space, CompleteNamed("false", Uuid::Random(), body)), kNoDeadline,
                     others.Sink());
  }
  EXPECT_EQ(completions_.size(), 0u);
  EXPECT_EQ(others.size(), 0u) << "the last fifth";
  batcher.Reserve(ReserveNamed("new"), kNoDeadline, ReserveSink(verdicts_));
  ASSERT_EQ(verdicts_.size(), 1u) << "reservations go first";
  EXPECT_EQ(ReasonOf(verdicts_.Await(1)[0].status()), Reason::kOverloaded);
  complete(2);
  ASSERT_EQ(completions_.size(), 1u);
  EXPECT_EQ(ReasonOf(completions_.Await(1)[0].status()), Reason::kOverloaded);

  store_.Open();
  EXPECT_THAT(completions_.Await(3), SizeIs(3));
  EXPECT_THAT(others.Await(2), SizeIs(2));
  // All memory is released, also for replies that were read.
  for (int i = 0; i < 2; ++i) {
    batcher.Get(GetNamed("record-" + std::to_string(i)), kNoDeadline, records_.Sink());
    ASSERT_TRUE(records_.Await(i + 1)[i].ok());
  }
  batcher.Reserve(ReserveNamed("new"), kNoDeadline, ReserveSink(verdicts_));
  EXPECT_NE(As<Reserved>(verdicts_.Await(2)[1]), nullptr);
}

// The completions of eight sessions, each with what one may have unanswered. Before the store
// nobody checks whether they have a reservation.
TEST_F(BatcherTest, FalseCompletionsOfOneNamespaceKeepNoOtherOnesOut) {
  const Uuid token = Token("held");
  const std::string body(1024 * 1024, 'b');
  max_bytes_ = 32 * body.size();
  Batcher& batcher = Make();
  OccupyWorker();
  Answers<absl::StatusOr<Completion>> false_ones;
  constexpr int kSessions = 8;
  constexpr int kOfEach = 8;
  for (int session = 0; session < kSessions; ++session) {
    Batcher::Group group;
    for (int i = 0; i < kOfEach; ++i) {
      const std::string name = absl::StrCat("false-", session, "-", i);
      batcher.Complete(In("flood", CompleteNamed(name, Uuid::Random(), body)), kNoDeadline,
                       false_ones.Sink(), &group);
    }
    batcher.Submit(group);
  }
  const std::size_t refused = false_ones.size();
  EXPECT_GT(refused, kSessions * kOfEach / 2u);

  batcher.Extend(ExtendNamed("held", token), kNoDeadline, extensions_.Sink());
  batcher.Complete(CompleteNamed("held", token, body), kNoDeadline, completions_.Sink());
  batcher.Release(ReleaseNamed("other", Uuid::Random()), kNoDeadline, releases_.Sink());
  EXPECT_EQ(extensions_.size() + completions_.size() + releases_.size(), 0u);
  store_.Open();
  EXPECT_TRUE(completions_.Await(1)[0].ok());
  EXPECT_THAT(extensions_.Await(1), SizeIs(1));
  EXPECT_EQ(ReasonOf(releases_.Await(1)[0]), Reason::kReservationLost);
  EXPECT_THAT(false_ones.Await(kSessions * kOfEach), SizeIs(kSessions * kOfEach));
  // All memory is released: the flood has as much room as before.
  batcher.Close();
  EXPECT_EQ(batcher.budget().held(), 0u);
}

TEST_F(BatcherTest, AnotherWorkerTakesWhatIsTooLargeForABatch) {
  const std::string body(OperationQueues::kMaxBatchBytes / 4, 'b');
  Batcher& batcher = Make(/*max_queued=*/1000, /*max_batch=*/256, /*threads=*/2);
  store_.Shut();
  Batcher::Group group;
  for (int i = 0; i < 8; ++i) {
    batcher.Complete(CompleteNamed(std::to_string(i), Uuid::Random(), body), kNoDeadline,
                     completions_.Sink(), &group);
  }
  batcher.Submit(group);
  ASSERT_TRUE(store_.AwaitCalls(2));
  for (const GatedStore::Call& call : store_.calls()) EXPECT_THAT(call.ids, SizeIs(4));
  store_.Open();
  EXPECT_THAT(completions_.Await(8), SizeIs(8));
}

TEST_F(BatcherTest, EveryAnswerGoesToItsOwnCaller) {
  Batcher& batcher = Make(/*max_queued=*/100'000, /*max_batch=*/32, /*threads=*/4);
  std::atomic<int> right{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < 500; ++i) {
        const std::string name = std::to_string(caller) + "/" + std::to_string(i % 50);
        batcher.Reserve(ReserveNamed(name), kNoDeadline, ReserveSink(verdicts_));
        batcher.Get(GetNamed(name), kNoDeadline, [&, name](absl::StatusOr<Record> answer) {
          // Reads do not wait for reservations, so the reservation may not have arrived yet.
          if (!answer.ok() || answer->key == KeyNamed(name)) ++right;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  batcher.Close();

  EXPECT_EQ(right, 2000);
  const auto answers = verdicts_.Await(2000);
  ASSERT_THAT(answers, SizeIs(2000));
  int granted = 0;
  for (const auto& answer : answers) granted += As<Reserved>(answer) != nullptr ? 1 : 0;
  EXPECT_EQ(granted, 200) << "one for each record";
}

// The effect of a failing store on an operation, and its answer.
class FailingStoreTest : public BatcherTest,
                         public ::testing::WithParamInterface<GatedStore::Fate> {
 protected:
  bool HasReply(std::string_view name) {
    const auto record = memory_.Get({GetNamed(name)})[0];
    return record.ok() && record->reply.has_value();
  }
};

TEST_P(FailingStoreTest, ACompletionThatItDoesNotAnswerIsNotAnsweredForIt) {
  const Uuid token = Token("one");
  store_.FailOn(OperationKind::kComplete, IdNamed("one"), GetParam());
  Batcher& batcher = Make();
  batcher.Complete(CompleteNamed("one", token), kNoDeadline, completions_.Sink());
  const absl::Status refused = completions_.Await(1)[0].status();
  EXPECT_EQ(ReasonOf(refused), Reason::kStoreUnavailable) << refused;
  EXPECT_EQ(KindOfAnswer(refused), AnswerKind::kNone) << "it may have happened";
  EXPECT_EQ(HasReply("one"), GetParam() == GatedStore::Fate::kHappens);

  store_.Recover();
  EXPECT_EQ(HasReply("one"), GetParam() != GatedStore::Fate::kNeverHappens);
  batcher.Complete(CompleteNamed("one", token), kNoDeadline, completions_.Sink());
  EXPECT_TRUE(completions_.Await(2)[1].ok()) << "the same again";
  EXPECT_TRUE(HasReply("one"));
}

TEST_P(FailingStoreTest, AGrantThatItDoesNotAnswerIsFoundAgainByItsRequestToken) {
  ReserveOp op = ReserveNamed("one");
  op.request_token = Uuid::Random();
  store_.FailOn(OperationKind::kReserve, op.id, GetParam());
  Batcher& batcher = Make();
  batcher.Reserve(op, kNoDeadline, ReserveSink(verdicts_));
  EXPECT_EQ(ReasonOf(verdicts_.Await(1)[0].status()), Reason::kStoreUnavailable);
  store_.Recover();
  batcher.Reserve(op, kNoDeadline, ReserveSink(verdicts_));
  const auto answers = verdicts_.Await(2);
  ASSERT_NE(As<Reserved>(answers[1]), nullptr) << answers[1].status();
  EXPECT_EQ(As<Reserved>(answers[1])->attempt, 1u);
}

TEST_P(FailingStoreTest, WhatFailsInABatchFailsAlone) {
  const Uuid first = Token("first");
  const Uuid failing = Token("failing");
  const Uuid last = Token("last");
  store_.FailOn(OperationKind::kComplete, IdNamed("failing"), GetParam());
  Batcher& batcher = Make();
  OccupyWorker();
  Answers<absl::StatusOr<Completion>> failed;
  batcher.Complete(CompleteNamed("first", first), kNoDeadline, completions_.Sink());
  batcher.Complete(CompleteNamed("failing", failing), kNoDeadline, failed.Sink());
  batcher.Complete(CompleteNamed("last", last), kNoDeadline, completions_.Sink());
  store_.Open();

  for (const auto& answer : completions_.Await(2)) EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(ReasonOf(failed.Await(1)[0].status()), Reason::kStoreUnavailable);
  EXPECT_THAT(store_.calls().back().ids, SizeIs(3)) << "they came together";
}

std::string NameOf(GatedStore::Fate fate) {
  switch (fate) {
    case GatedStore::Fate::kNeverHappens:
      return "NeverHappens";
    case GatedStore::Fate::kHappens:
      return "Happens";
    case GatedStore::Fate::kHappensLater:
      return "HappensLater";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Fates, FailingStoreTest,
                         ::testing::Values(GatedStore::Fate::kNeverHappens,
                                           GatedStore::Fate::kHappens,
                                           GatedStore::Fate::kHappensLater),
                         [](const auto& test) { return NameOf(test.param); });

// The store began in time, and its work cannot be undone.
TEST_F(BatcherTest, AnAnswerAfterItsDeadlineIsOfAnAppliedOperation) {
  const Uuid token = Token("one");
  Batcher& batcher = Make();
  store_.ShutAnswers();
  batcher.Complete(CompleteNamed("one", token), clock_.Monotonic() + std::chrono::seconds(1),
                   completions_.Sink());
  ASSERT_TRUE(store_.AwaitDone(1));
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(completions_.size(), 0u) << "before the store has answered";
  store_.Open();
  const auto answers = completions_.Await(1);
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_TRUE(answers[0].ok()) << answers[0].status();
}

TEST(BatcherOptionsTest, TheDefaultsAreThoseThatAreDocumented) {
  const BatcherOptions options;
  EXPECT_EQ(options.threads, 4);
  EXPECT_EQ(options.max_queued, limits::kMaxQueuedOperations);
  EXPECT_EQ(options.max_bytes, limits::kDefaultQueuedBytes);
  EXPECT_EQ(options.max_batch, limits::kMaxBatch);
  EXPECT_EQ(options.min_batch_size, 20u);
  EXPECT_EQ(options.max_linger, std::chrono::milliseconds(5));
  EXPECT_EQ(options.clock, &Clock::System());
}

TEST_F(BatcherTest, AReservationWeighsItsTextsAndWhatKeepsThem) {
  ReserveOp op;
  op.key = {"n", "sc", "ope", "keys"};
  EXPECT_EQ(Batcher::BytesOf(op), 1024u + 10);
  op.parent = RecordKey{"pa", "r", "en", "t"};
  EXPECT_EQ(Batcher::BytesOf(op), 1024u + 10 + 6);
  op.fingerprints = {{1, std::string(32, 'a')}, {2, std::string(16, 'b')}};
  EXPECT_EQ(Batcher::BytesOf(op), 1024u + 10 + 6 + 48);
  op.labels = {{"a", "bc"}, {"build", "42"}};
  EXPECT_EQ(Batcher::BytesOf(op), 1024u + 10 + 6 + 48 + 2 * 96 + 10);
}

TEST_F(BatcherTest, EachOperationHoldsWhatItWeighsUntilItIsAnswered) {
  Batcher& batcher = Make();
  OccupyWorker();
  const std::size_t before = batcher.budget().held();
  EXPECT_EQ(before, Batcher::BytesOf(ReserveNamed("occupies")));
  std::size_t expected = before;
  const auto expect_more = [&](std::size_t bytes) {
    expected += bytes;
    EXPECT_EQ(batcher.budget().held(), expected);
  };
  batcher.Get(GetNamed("one"), kNoDeadline, records_.Sink());
  expect_more(1024);
  const CompleteOp completion = CompleteNamed("one", Uuid::Random());
  batcher.Complete(completion, kNoDeadline, completions_.Sink());
  expect_more(1024 + completion.reply.bytes.size());
  ReleaseOp release = ReleaseNamed("one", Uuid::Random());
  release.reason = "because";
  batcher.Release(release, kNoDeadline, releases_.Sink());
  expect_more(1024 + 7);
  ExtendOp extension = ExtendNamed("one", Uuid::Random());
  batcher.Extend(extension, kNoDeadline, extensions_.Sink());
  expect_more(1024);
  extension.checkpoint = "step 1";
  batcher.Extend(extension, kNoDeadline, extensions_.Sink());
  expect_more(1024 + 6);
  batcher.Reserve(ReserveNamed("two"), kNoDeadline, ReserveSink(verdicts_));
  expect_more(Batcher::BytesOf(ReserveNamed("two")));
  store_.Open();
  EXPECT_THAT(extensions_.Await(2), SizeIs(2));
  EXPECT_THAT(verdicts_.Await(1), SizeIs(1));
  batcher.Close();
  EXPECT_EQ(batcher.budget().held(), 0u);
}

TEST_F(BatcherTest, AnAnswerWithoutAReplyHoldsNothingBesideItsOperation) {
  const Uuid token = Token("one");
  Batcher& batcher = Make();
  // Each weighs more than those before it.
  const auto expect_most = [&](std::size_t bytes) {
    while (batcher.budget().held() > 0) std::this_thread::yield();
    EXPECT_EQ(observer_.counts().most_held, bytes);
  };
  batcher.Get(GetNamed("one"), kNoDeadline, records_.Sink());
  ASSERT_TRUE(records_.Await(1)[0].ok());
  expect_most(1024);
  ExtendOp extension = ExtendNamed("one", token);
  extension.checkpoint = "1";
  batcher.Extend(extension, kNoDeadline, extensions_.Sink());
  ASSERT_TRUE(extensions_.Await(1)[0].ok());
  expect_most(1024 + 1);
  const CompleteOp completion = CompleteNamed("one", token);
  batcher.Complete(completion, kNoDeadline, completions_.Sink());
  ASSERT_TRUE(completions_.Await(1)[0].ok());
  expect_most(1024 + completion.reply.bytes.size());
  ReleaseOp release = ReleaseNamed("two", Token("two"));
  release.reason = "because of nothing";
  batcher.Release(release, kNoDeadline, releases_.Sink());
  ASSERT_TRUE(releases_.Await(1)[0].ok());
  expect_most(1024 + release.reason.size());
  batcher.Reserve(ReserveNamed("three"), kNoDeadline, ReserveSink(verdicts_));
  ASSERT_NE(As<Reserved>(verdicts_.Await(1)[0]), nullptr);
  expect_most(Batcher::BytesOf(ReserveNamed("three")));
}

TEST_F(BatcherTest, ARefusalHasARetryDelay) {
  Batcher& batcher = Make(/*max_queued=*/1);
  OccupyWorker();
  batcher.Reserve(ReserveNamed("queued"), clock_.Monotonic() + std::chrono::seconds(1),
                  ReserveSink(verdicts_));
  Answers<absl::StatusOr<Verdict>> refused;
  batcher.Reserve(ReserveNamed("refused"), kNoDeadline, ReserveSink(refused));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(DetailsOf(refused.Await(1)[0].status()).retry_delay, absl::Milliseconds(500));
  clock_.Advance(absl::Seconds(1));
  store_.Open();
  const absl::Status overdue = verdicts_.Await(1)[0].status();
  EXPECT_EQ(overdue.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(DetailsOf(overdue).retry_delay, absl::Milliseconds(500));
  batcher.Close();
  EXPECT_EQ(batcher.budget().held(), 0u) << "what was overdue held as much as any other";
  batcher.Reserve(ReserveNamed("late"), kNoDeadline, ReserveSink(refused));
  const absl::Status closed = refused.Await(2)[1].status();
  EXPECT_EQ(closed.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(DetailsOf(closed).retry_delay, absl::Seconds(1));
  EXPECT_EQ(observer_.counts().shed, 1u) << "one that comes too late is not shed";
}

// A group of two batches is the work of two.
TEST_F(BatcherTest, AsManyWorkersAreWokenAsThereAreBatches) {
  worth_a_batch_ = 1;
  Batcher& batcher = Make(/*max_queued=*/1000, /*max_batch=*/16, /*threads=*/3);
  store_.Shut();
  Batcher::Group group;
  for (int i = 0; i < 33; ++i) {
    batcher.Reserve(ReserveNamed(std::to_string(i)), kNoDeadline, ReserveSink(verdicts_), &group);
  }
  batcher.Submit(group);
  ASSERT_TRUE(store_.AwaitCalls(3)) << "none of them is answered yet";
  store_.Open();
  EXPECT_THAT(verdicts_.Await(33), SizeIs(33));
}

TEST_F(BatcherTest, TheObserverGetsTheTimeOfTheStore) {
  const Uuid token = Token("completed");
  Batcher& batcher = Make();
  OccupyWorker();
  clock_.Advance(absl::Seconds(2));
  // A completion and a reservation in one call.
  batcher.Complete(CompleteNamed("completed", token), kNoDeadline, completions_.Sink());
  batcher.Reserve(ReserveNamed("new"), kNoDeadline, ReserveSink(verdicts_));
  store_.Admit();
  ASSERT_TRUE(store_.AwaitCalls(2));
  EXPECT_EQ(observer_.counts().batch_time, absl::Seconds(2));
  clock_.Advance(absl::Seconds(5));
  store_.Open();
  EXPECT_THAT(completions_.Await(1), SizeIs(1));
  EXPECT_THAT(verdicts_.Await(1), SizeIs(1));
  batcher.Close();
  EXPECT_EQ(observer_.counts().batch_time, absl::Seconds(2 + 5 + 5)) << "once for each kind";
}

TEST_F(BatcherTest, TheObserverGetsUnusualGrants) {
  Batcher& batcher = Make();
  ReserveOp op = ReserveNamed("one");
  op.request_token = Uuid::Random();
  std::size_t sent = 0;
  const auto reserve = [&] {
    batcher.Reserve(op, kNoDeadline, ReserveSink(verdicts_));
    ++sent;
    return As<Reserved>(verdicts_.Await(sent)[sent - 1])->token;
  };
  const Uuid first = reserve();
  EXPECT_EQ(observer_.counts().repeated_grants, 0u);
  reserve();
  EXPECT_EQ(observer_.counts().repeated_grants, 1u);
  EXPECT_EQ(observer_.counts().retries_after_expiry, 0u);
  // In time, and then once more: neither is an overrun.
  for (int i = 0; i < 2; ++i) {
    batcher.Complete(CompleteNamed("one", first), kNoDeadline, completions_.Sink());
    EXPECT_TRUE(completions_.Await(i + 1)[i].ok());
  }
  EXPECT_EQ(observer_.counts().lease_overruns, 0u);
  clock_.Advance(op.retention);
  const Uuid second = reserve();
  EXPECT_EQ(observer_.counts().retries_after_expiry, 1u);
  EXPECT_EQ(observer_.counts().take_overs, 0u);
  // Too late, and then once more: one overrun.
  clock_.Advance(op.lease);
  for (int i = 0; i < 2; ++i) {
    batcher.Complete(CompleteNamed("one", second), kNoDeadline, completions_.Sink());
    EXPECT_TRUE(completions_.Await(i + 3)[i + 2].ok());
  }
  EXPECT_EQ(observer_.counts().lease_overruns, 1u);
}

TEST_F(BatcherTest, TheObserverGetsEachRecordThatBecomesUnknown) {
  Batcher& batcher = Make();
  ReserveOp op = ReserveNamed("lapsed");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  std::size_t sent = 0;
  const auto reserve = [&] {
    batcher.Reserve(op, kNoDeadline, ReserveSink(verdicts_));
    ++sent;
    verdicts_.Await(sent);
  };
  reserve();
  clock_.Advance(op.lease);
  EXPECT_EQ(observer_.counts().marked_unknown, 0u);
  reserve();
  reserve();
  EXPECT_EQ(observer_.counts().marked_unknown, 1u) << "the second one found it UNKNOWN";
  ReleaseOp release = ReleaseNamed("released", Token("released"));
  release.outcome_unknown = true;
  batcher.Release(release, kNoDeadline, releases_.Sink());
  EXPECT_TRUE(releases_.Await(1)[0].ok());
  release = ReleaseNamed("nothing", Token("nothing"));
  batcher.Release(release, kNoDeadline, releases_.Sink());
  EXPECT_TRUE(releases_.Await(2)[1].ok());
  EXPECT_EQ(observer_.counts().marked_unknown, 2u);
}

TEST_F(BatcherTest, FailuresOfTheStoreAreThoseThatAreItsOwn) {
  Batcher& batcher = Make();
  std::size_t sent = 0;
  std::size_t failures = 0;
  for (const auto& [reason, is_failure] :
       {std::pair(Reason::kStoreUnavailable, true), std::pair(Reason::kRecordDamaged, true),
        std::pair(Reason::kRecordIdCollision, true), std::pair(Reason::kRecordNotFound, false),
        std::pair(Reason::kKeyInvalid, false)}) {
    store_.Fail(OperationKind::kGet, reason);
    batcher.Get(GetNamed("one"), kNoDeadline, records_.Sink());
    ++sent;
    EXPECT_EQ(ReasonOf(records_.Await(sent)[sent - 1].status()), reason);
    failures += is_failure ? 1 : 0;
    EXPECT_EQ(observer_.counts().store_failures, failures) << ReasonName(reason);
  }
  EXPECT_EQ(observer_.counts().reservations_lost, 0u);
}

TEST_F(BatcherTest, TheObserverGetsTheStoresAnswers) {
  Batcher& batcher = Make();
  const Uuid first = Token("late");
  clock_.Advance(limits::kDefaultLease);
  batcher.Reserve(ReserveNamed("late"), kNoDeadline, ReserveSink(verdicts_));
  ASSERT_THAT(verdicts_.Await(1), SizeIs(1));
  batcher.Complete(CompleteNamed("late", first), kNoDeadline, completions_.Sink());
  EXPECT_EQ(ReasonOf(completions_.Await(1)[0].status()), Reason::kReservationLost);
  clock_.Advance(limits::kDefaultLease);
  const Uuid second = As<Reserved>(verdicts_.Await(1)[0])->token;
  batcher.Complete(CompleteNamed("late", second), kNoDeadline, completions_.Sink());
  EXPECT_TRUE(completions_.Await(2)[1].ok());
  store_.Fail(OperationKind::kGet, Reason::kStoreUnavailable);
  batcher.Get(GetNamed("late"), kNoDeadline, records_.Sink());
  EXPECT_THAT(records_.Await(1), SizeIs(1));

  const Counts counts = observer_.counts();
  EXPECT_EQ(counts.take_overs, 1u);
  EXPECT_EQ(counts.reservations_lost, 1u);
  EXPECT_EQ(counts.lease_overruns, 1u);
  EXPECT_EQ(counts.store_failures, 1u);
  EXPECT_EQ(counts.batches, 4u);
}

// The span of a sampled operation.
Batcher::Trace Sampled(std::uint8_t number) {
  TraceContext trace;
  trace.trace_id[0] = number;
  trace.span_id[0] = number;
  trace.sampled = true;
  return trace;
}

template <typename Value>
Value Attribute(const Span& span, const std::string& name) {
  for (const auto& [its_name, value] : span.attributes) {
    if (its_name == name) return std::get<Value>(value);
  }
  return Value();
}

TEST_F(BatcherTest, AStoreCallIsASpanOfItsFirstSampledOperation) {
  testing::KeptSpans kept;
  tracer_ = &kept;
  Batcher& batcher = Make();
  const Uuid token = Token("completed");
  OccupyWorker();
  batcher.Reserve(ReserveNamed("not-sampled"), kNoDeadline, ReserveSink(verdicts_));
  batcher.Reserve(ReserveNamed("second"), kNoDeadline, ReserveSink(verdicts_), nullptr, Sampled(2));
  batcher.Reserve(ReserveNamed("third"), kNoDeadline, ReserveSink(verdicts_), nullptr, Sampled(3));
  batcher.Complete(CompleteNamed("completed", token), kNoDeadline, completions_.Sink(), nullptr,
                   Sampled(1));
  batcher.Get(GetNamed("completed"), kNoDeadline, records_.Sink(), nullptr, Sampled(4));
  batcher.Extend(ExtendNamed("completed", token), kNoDeadline, extensions_.Sink());
  store_.Open();
  ASSERT_THAT(verdicts_.Await(3), SizeIs(3));
  ASSERT_THAT(records_.Await(1), SizeIs(1));

  // None for the first call, and none for the extension: they have no sampled operation.
  const std::vector<Span> spans = kept.spans();
  ASSERT_THAT(spans, SizeIs(2));
  const Span& together = spans[0];
  EXPECT_EQ(together.kind, SpanKind::kClient);
  EXPECT_EQ(together.parent.trace_id, Sampled(1)->trace_id);
  EXPECT_EQ(together.parent.span_id, Sampled(1)->span_id);
  ASSERT_THAT(together.links, SizeIs(2));
  EXPECT_EQ(together.links[0].target.trace_id, Sampled(2)->trace_id);
  EXPECT_EQ(together.links[0].relation, "batch");
  EXPECT_EQ(together.links[1].target.span_id, Sampled(3)->span_id);
  EXPECT_EQ(together.name, "BATCH");
  EXPECT_EQ(Attribute<std::string>(together, "db.system"), "memory");
  EXPECT_EQ(Attribute<std::string>(together, "db.operation.name"), "BATCH");
  EXPECT_EQ(Attribute<std::int64_t>(together, "db.operation.batch.size"), 4);
  EXPECT_FALSE(together.failed);
  EXPECT_EQ(spans[1].name, "Get");
  EXPECT_EQ(spans[1].parent.trace_id, Sampled(4)->trace_id);
  EXPECT_THAT(spans[1].links, IsEmpty());
}

TEST_F(BatcherTest, ASpanHasABoundedNumberOfLinksAndTheStoresFailure) {
  testing::KeptSpans kept;
  tracer_ = &kept;
  Batcher& batcher = Make();
  OccupyWorker();
  store_.Fail(OperationKind::kReserve, Reason::kStoreUnavailable);
  constexpr std::size_t kOperations = kMaxSpanLinks + 20;
  for (std::size_t i = 0; i < kOperations; ++i) {
    batcher.Reserve(ReserveNamed(absl::StrCat("key-", i)), kNoDeadline, ReserveSink(verdicts_),
                    nullptr, Sampled(1));
  }
  store_.Open();
  ASSERT_THAT(verdicts_.Await(kOperations), SizeIs(kOperations));
  const std::vector<Span> spans = kept.spans();
  ASSERT_THAT(spans, SizeIs(1));
  EXPECT_EQ(spans[0].name, "BATCH Reserve");
  EXPECT_THAT(spans[0].links, SizeIs(kMaxSpanLinks));
  EXPECT_EQ(Attribute<std::int64_t>(spans[0], "db.operation.batch.size"), kOperations);
  EXPECT_TRUE(spans[0].failed);
  EXPECT_EQ(Attribute<std::string>(spans[0], "error.type"), "STORE_UNAVAILABLE");
}

}  // namespace
}  // namespace idempotency::internal
