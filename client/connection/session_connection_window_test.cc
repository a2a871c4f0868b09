// How many operations are unanswered, for how long they wait, and their deadlines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "client/connection/session_connection.h"
#include "client/testing/fake_service.h"
#include "client/testing/session_connection_fixture.h"
#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contents;
using ::testing::ElementsAre;
using testing::ExpectStoreUnavailable;
using ::testing::HasSubstr;
using testing::In;
using testing::Limits;
using testing::RequestWithKey;
using testing::Reserved;
using testing::SessionConnectionTest;
using testing::StatusSink;

TEST_F(SessionConnectionTest, AnOperationWhoseDeadlineHasPassedIsNotSent) {
  Open();
  Reserve("late", In(-seconds(1)));
  const Reserved answer = OnlyAnswer();
  ExpectStoreUnavailable(answer);
  EXPECT_THAT(answer.status().message(), HasSubstr("deadline"));
  EXPECT_EQ(streams_.count(), 0u);
}

TEST_F(SessionConnectionTest, NoMoreThanTheWindowIsUnansweredAndCompletionsAreNotCounted) {
  Open();
  Reserve("1");
  stream().ServerSends(Limits(2, 1 << 20));
  Settle();
  Reserve("2");
  Settle();
  Reserve("3");
  Settle();
  ASSERT_EQ(stream().frames().size(), 2u);
  Complete();
  Settle();
  ASSERT_EQ(stream().frames().size(), 3u);
  EXPECT_THAT(Contents(stream().frames()[2]), ElementsAre("complete 4"));
  AnswerId(stream(), 1);
  ASSERT_EQ(stream().frames().size(), 4u);
  EXPECT_THAT(Contents(stream().frames()[3]), ElementsAre("reserve 3"));
}

TEST_F(SessionConnectionTest, TheAnswerToACompletionLeavesTheWindowAsItWas) {
  Open();
  Complete();
  stream().ServerSends(Limits(1, 1 << 20));
  AnswerAll(stream());
  ASSERT_EQ(answers_.Await(1).size(), 1u);
  Reserve("2");
  EXPECT_EQ(stream().frames().size(), 2u);
  Reserve("3");
  Settle();
  EXPECT_EQ(stream().frames().size(), 2u);
}

// It does not wait at the server.
TEST_F(SessionConnectionTest, AnAbandonedCompletionIsNotCancelled) {
  Open();
  session_->Complete(v1::CompleteRequest(), In(milliseconds(30)),
                     StatusSink<v1::CompleteResponse>(answers_));
  stream().ServerSends(Limits(1, 1 << 20));
  ASSERT_EQ(answers_.Await(1).size(), 1u);
  Reserve("2");
  Settle();
  ASSERT_EQ(stream().frames().size(), 2u);
  EXPECT_THAT(Contents(stream().frames()[1]), ElementsAre("reserve 2"));
}

TEST_F(SessionConnectionTest, OneMayWaitInAnyCase) {
  SessionConnectionOptions options;
  options.max_waiting = 0;
  Open(options);
  Reserve("1");
  stream().ServerSends(Limits(1, 1 << 20));
  Settle();
  ASSERT_EQ(stream().frames().size(), 1u);
  EXPECT_THAT(Contents(stream().frames()[0]), ElementsAre("reserve 1"));
}

TEST_F(SessionConnectionTest, OneTooManyWaitingIsOverloaded) {
  SessionConnectionOptions options;
  options.max_waiting = 2;
  Open(options);
  Reserve("1");
  stream().ServerSends(Limits(1, 1 << 20));
  Settle();
  for (const char* key : {"2", "3", "4"}) Reserve(key);
  const Reserved answer = OnlyAnswer();
  EXPECT_EQ(ReasonOf(answer.status()), Reason::kOverloaded);
  EXPECT_EQ(DetailsOf(answer.status()).retry_delay, retry_delays::kClientOverloaded);
}

TEST_F(SessionConnectionTest, TheTimeThatIsLeftTravels) {
  Open();
  Reserve("1", In(seconds(5)));
  Settle();
  Reserve("2", Connection::Deadline::max());
  Settle();
  const auto first = stream().frames()[0].operations(0);
  EXPECT_TRUE(first.timeout().seconds() == 4 || first.timeout().seconds() == 5);
  EXPECT_LT(first.timeout().nanos(), 1'000'000'000);
  EXPECT_FALSE(stream().frames()[1].operations(0).has_timeout());
}

// The caller gets an answer, the server gets a cancel, and the operation counts against the
// window until the server's answer arrives, which is dropped.
TEST_F(SessionConnectionTest, APassedDeadlineAbandonsAReservation) {
  Open();
  Reserve("1", In(milliseconds(30)));
  stream().ServerSends(Limits(1, 1 << 20));
  Settle();
  const Reserved answer = OnlyAnswer();
  ExpectStoreUnavailable(answer);
  EXPECT_THAT(answer.status().message(), HasSubstr("deadline"));
  // The timer writes the cancel before it answers the caller.
  Settle();
  ASSERT_EQ(stream().frames().size(), 2u);
  EXPECT_THAT(Contents(stream().frames()[1]), ElementsAre("cancel 1"));
  Reserve("2");
  Settle();
  EXPECT_EQ(stream().frames().size(), 2u);
  AnswerId(stream(), 1);
  EXPECT_EQ(stream().frames().size(), 3u);
  EXPECT_EQ(answers_.size(), 1u);
  EXPECT_FALSE(stream().cancelled());
}

TEST_F(SessionConnectionTest, ADeadlineWhileWaitingSendsNothing) {
  Open();
  Reserve("1");
  stream().ServerSends(Limits(1, 1 << 20));
  Settle();
  Reserve("2", In(milliseconds(30)));
  ASSERT_EQ(answers_.Await(1).size(), 1u);
  AnswerId(stream(), 1);
  Settle();
  EXPECT_EQ(stream().frames().size(), 1u);
}

// Each later than the planned one, then one before it.
TEST_F(SessionConnectionTest, DeadlinesAreKeptInAnyOrder) {
  Open();
  Mutex mutex;
  CondVar changed;
  std::vector<int> order;
  for (const int wait_ms : {400, 700, 1000, 100}) {
    session_->Reserve(RequestWithKey("k"), In(milliseconds(wait_ms)),
                      [&, wait_ms](const Reserved&) {
                        MutexLock lock(mutex);
                        order.push_back(wait_ms);
                        changed.NotifyAll();
                      });
  }
  MutexLock lock(mutex);
  const auto deadline = In(seconds(10));
  while (order.size() < 4 && changed.WaitUntil(lock, deadline)) {
  }
  EXPECT_THAT(order, ElementsAre(100, 400, 700, 1000));
}

TEST_F(SessionConnectionTest, TheRoomThatAnAnswerMakesIsUsedBeforeItsCallbackRuns) {
  Open();
  std::size_t frames = 0;
  session_->Reserve(RequestWithKey("1"), In(seconds(60)),
                    [&](const Reserved&) { frames = stream().frames().size(); });
  stream().ServerSends(Limits(1, 1 << 20));
  Settle();
  Reserve("waits for room");
  AnswerId(stream(), 1);
  EXPECT_EQ(frames, 2u);
}

}  // namespace
}  // namespace idempotency::internal
