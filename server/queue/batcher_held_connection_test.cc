// Calls of the store that begin on the thread which brings their operations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "core/testing/answers.h"
#include "core/testing/manual_clock.h"
#include "grpc_idempotency/errors.h"
#include "server/queue/batcher.h"
#include "server/store/memory/memory_store.h"
#include "server/store/testing/operations.h"
#include "server/testing/counting_observer.h"
#include "server/testing/holding_store.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Batcher::Deadline kNoDeadline = Batcher::kNoDeadline;

class BatcherHeldConnectionTest : public ::testing::Test {
 protected:
  // The workers can only be joined when the answers arrive.
  ~BatcherHeldConnectionTest() override {
    if (store_ != nullptr) store_->Arrive();
  }

  // Returns once all the connections are held.
  Batcher& Make(int threads, int connections) {
    store_ = std::make_unique<HoldingStore>(memory_, connections);
    BatcherOptions options;
    options.threads = threads;
    options.clock = &clock_;
    // What waits for another call waits for its end.
    options.max_linger = std::chrono::hours(1);
    batcher_ = std::make_unique<Batcher>(*store_, observer_, options);
    EXPECT_TRUE(store_->AwaitHeld(static_cast<std::size_t>(connections)));
    return *batcher_;
  }

  void Reserve(const std::string& name, Batcher::Deadline deadline = kNoDeadline) {
    batcher_->Reserve(ReserveNamed(name), deadline,
                      [this](absl::StatusOr<Verdict> answer, const ReserveOp&) {
                        answered_by_.Add(std::this_thread::get_id());
                        verdicts_.Add(std::move(answer));
                      });
  }

  ManualClock clock_;
  MemoryStore memory_{clock_};
  std::unique_ptr<HoldingStore> store_;
  CountingObserver observer_;
  Answers<absl::StatusOr<Verdict>> verdicts_;
  Answers<absl::StatusOr<Completion>> completions_;
  Answers<absl::Status> releases_;
  Answers<std::thread::id> answered_by_;
  // Last: its callbacks use the others.
  std::unique_ptr<Batcher> batcher_;
};

TEST_F(BatcherHeldConnectionTest, TheThreadThatBringsALoneOperationBeginsItsCall) {
  Make(2, 2);
  Reserve("one");

  const auto verdicts = verdicts_.Await(1);
  ASSERT_THAT(verdicts, SizeIs(1));
  const auto* const reserved = As<Reserved>(verdicts[0]);
  ASSERT_NE(reserved, nullptr);
  EXPECT_THAT(store_->begun_by(), ElementsAre(std::this_thread::get_id()));
  EXPECT_NE(answered_by_.Await(1).at(0), std::this_thread::get_id());

  ASSERT_TRUE(store_->AwaitHeld(2)) << "for the next call";
  batcher_->Complete(CompleteNamed("one", reserved->token), kNoDeadline, completions_.Sink());
  ASSERT_THAT(completions_.Await(1), SizeIs(1));
  EXPECT_TRUE(completions_.Await(1)[0].ok()) << completions_.Await(1)[0].status();
  EXPECT_THAT(store_->begun_by(), SizeIs(2));
  EXPECT_EQ(store_->own_calls(), 0);
}

TEST_F(BatcherHeldConnectionTest, ACallThatDoesNotBeginIsAWorkers) {
  Make(1, 1);
  store_->Decline();
  Reserve("one");

  EXPECT_NE(As<Reserved>(verdicts_.Await(1).at(0)), nullptr);
  EXPECT_EQ(store_->own_calls(), 1);
  EXPECT_NE(answered_by_.Await(1).at(0), std::this_thread::get_id());
}

TEST_F(BatcherHeldConnectionTest, OperationsWaitForTheEndOfACallThatBegan) {
  Make(2, 2);
  store_->Delay();
  Reserve("first");
  ASSERT_TRUE(store_->AwaitBegun(1));
  Reserve("second");
  Reserve("third");
  EXPECT_THAT(store_->begun_by(), SizeIs(1));
  EXPECT_EQ(store_->own_calls(), 0);

  store_->Arrive();
  EXPECT_THAT(verdicts_.Await(3), SizeIs(3));
  EXPECT_EQ(store_->own_calls() + static_cast<int>(store_->begun_by().size()), 2)
      << "the two share a call";
}

TEST_F(BatcherHeldConnectionTest, ManyOperationsTogetherAreAWorkers) {
  Batcher& batcher = Make(1, 1);
  Batcher::Group group;
  for (int i = 0; i < 100; ++i) {
    batcher.Reserve(
        ReserveNamed("record-" + std::to_string(i)), kNoDeadline,
        [this](absl::StatusOr<Verdict> answer, const ReserveOp&) {
          verdicts_.Add(std::move(answer));
        },
        &group);
  }
  batcher.Submit(group);

  EXPECT_THAT(verdicts_.Await(100), SizeIs(100));
  EXPECT_THAT(store_->begun_by(), IsEmpty());
  EXPECT_EQ(store_->own_calls(), 1);
}

TEST_F(BatcherHeldConnectionTest, ALargeReplyIsAWorkers) {
  Batcher& batcher = Make(1, 1);
  batcher.Complete(
      CompleteNamed("none", Uuid::Random(), std::string(HeldConnection::kMaxReplyBytes, 'x')),
      kNoDeadline, completions_.Sink());

  EXPECT_THAT(completions_.Await(1), SizeIs(1));
  EXPECT_THAT(store_->begun_by(), IsEmpty());
}

TEST_F(BatcherHeldConnectionTest, OtherKindsAreAWorkers) {
  Batcher& batcher = Make(1, 1);
  batcher.Release(ReleaseNamed("none", Uuid::Random()), kNoDeadline, releases_.Sink());

  EXPECT_THAT(releases_.Await(1), SizeIs(1));
  EXPECT_THAT(store_->begun_by(), IsEmpty());
}

TEST_F(BatcherHeldConnectionTest, AnOverdueOperationIsNotBegun) {
  Make(1, 1);
  Reserve("late", clock_.Monotonic());

  EXPECT_EQ(ReasonOf(verdicts_.Await(1).at(0).status()), Reason::kStoreUnavailable);
  EXPECT_THAT(store_->begun_by(), IsEmpty());
  Reserve("in time");
  EXPECT_NE(As<Reserved>(verdicts_.Await(2).at(1)), nullptr);
}

TEST_F(BatcherHeldConnectionTest, AConnectionThatEndsWhileItIsHeldIsGivenUp) {
  Make(2, 2);
  store_->EndConnections();
  ASSERT_TRUE(store_->AwaitHeld(0));
  Reserve("one");

  EXPECT_NE(As<Reserved>(verdicts_.Await(1).at(0)), nullptr);
  EXPECT_EQ(store_->own_calls(), 1);
}

TEST_F(BatcherHeldConnectionTest, AConnectionThatAnotherCallerWaitsForIsGivenUp) {
  Make(2, 1);
  store_->WantConnections();
  ASSERT_TRUE(store_->AwaitHeld(0));
  Reserve("one");

  EXPECT_NE(As<Reserved>(verdicts_.Await(1).at(0)), nullptr);
}

TEST_F(BatcherHeldConnectionTest, CloseAwaitsACallThatBegan) {
  Make(2, 2);
  store_->Delay();
  Reserve("one");
  ASSERT_TRUE(store_->AwaitBegun(1));
  std::thread closing([this] { batcher_->Close(); });
  // The other worker has nothing to finish.
  ASSERT_TRUE(store_->AwaitHeld(1));
  EXPECT_EQ(verdicts_.size(), 0U);
  store_->Arrive();
  closing.join();

  EXPECT_EQ(verdicts_.size(), 1U);
  EXPECT_TRUE(store_->AwaitHeld(0));
  Reserve("two");
  EXPECT_EQ(ReasonOf(verdicts_.Await(2).at(1).status()), Reason::kStoreUnavailable);
}

TEST_F(BatcherHeldConnectionTest, ManyThreadsBringLoneOperations) {
  constexpr int kThreads = 4;
  constexpr int kOfEach = 500;
  Make(3, 2);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, thread] {
      for (int i = 0; i < kOfEach; ++i) {
        Reserve("record-" + std::to_string(thread) + "-" + std::to_string(i));
        if (i == kOfEach / 2 && thread == 0) store_->WantConnections();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // No linger ends here: every answer leads to the next call.
  const auto verdicts = verdicts_.Await(static_cast<std::size_t>(kThreads) * kOfEach);
  ASSERT_THAT(verdicts, SizeIs(static_cast<std::size_t>(kThreads) * kOfEach));
  for (const auto& verdict : verdicts) EXPECT_NE(As<Reserved>(verdict), nullptr);
}

}  // namespace
}  // namespace idempotency::internal
