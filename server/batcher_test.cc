#include "server/batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/errors.h"
#include "server/store/memory_store.h"
#include "server/testing/answers.h"
#include "server/testing/counting_observer.h"
#include "server/testing/gated_store.h"
#include "server/testing/manual_clock.h"
#include "server/testing/operations.h"

namespace idempotency {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using Counts = CountingObserver::Counts;

constexpr Batcher::Deadline kNoDeadline = Batcher::kNoDeadline;

Batcher::ReserveDone ReserveSink(Answers<absl::StatusOr<Verdict>>& answers) {
  return [&answers](absl::StatusOr<Verdict> answer, const ReserveOp&) {
    answers.Add(std::move(answer));
  };
}

class BatcherTest : public ::testing::Test {
 protected:
  // The workers can only be joined when the store lets them go.
  ~BatcherTest() override { store_.Open(); }

  Batcher& Make(std::size_t max_queued = 1000, std::size_t max_batch = 256, int threads = 1) {
    batcher_ = std::make_unique<Batcher>(store_, observer_,
                                         BatcherOptions{threads, max_queued, max_batch, &clock_});
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
      order, ElementsAre(OperationKind::kReserve, OperationKind::kComplete, OperationKind::kRelease,
                         OperationKind::kExtend, OperationKind::kReserve, OperationKind::kGet));
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

TEST_F(BatcherTest, AFullQueueRefusesReservationsAndReadsBeforeCompletions) {
  const Uuid token = Token("running");
  Batcher& batcher = Make(/*max_queued=*/4);
  OccupyWorker();
  for (int i = 0; i < 5; ++i) {
    batcher.Reserve(ReserveNamed("record-" + std::to_string(i)), kNoDeadline,
                    ReserveSink(verdicts_));
  }
  batcher.Get(GetNamed("running"), kNoDeadline, records_.Sink());

  // Refused at once, with advice.
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
  EXPECT_THAT(verdicts_.Await(5), SizeIs(5));
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

TEST_F(BatcherTest, CloseAnswersWhatIsQueuedAndRefusesTheRest) {
  Batcher& batcher = Make();
  OccupyWorker();
  batcher.Reserve(ReserveNamed("queued"), kNoDeadline, ReserveSink(verdicts_));
  std::thread closer([&batcher] { batcher.Close(); });
  // It can only be refused once Close() has begun, so ask until it is.
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
  // Ten of them weigh more than one call may.
  const std::string body(limits::kMaxReplyBytes - 1024, 'b');
  for (int i = 0; i < 10; ++i) {
    const std::string name = "large-" + std::to_string(i);
    ASSERT_TRUE(memory_.Complete({CompleteNamed(name, Token(name), body)})[0].ok());
  }
  Batcher& batcher = Make();
  OccupyWorker();
  for (int i = 0; i < 10; ++i) {
    batcher.Reserve(ReserveNamed("large-" + std::to_string(i)), kNoDeadline,
                    ReserveSink(verdicts_));
  }
  store_.Open();

  const auto answers = verdicts_.Await(10);
  ASSERT_THAT(answers, SizeIs(10));
  for (const auto& answer : answers) EXPECT_NE(As<Replay>(answer), nullptr) << answer.status();
  const auto calls = store_.calls();
  ASSERT_THAT(calls, SizeIs(3));
  EXPECT_THAT(calls[1].ids, SizeIs(10));
  EXPECT_THAT(calls[2].ids, SizeIs(1));
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
          // Reads do not wait for reservations, so it may not be there yet.
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

TEST_F(BatcherTest, TellsTheObserverWhatTheStoreAnswered) {
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

}  // namespace
}  // namespace idempotency
