#include "embedded/direct_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/answer_kind.h"
#include "core/clock.h"
#include "embedded/call_deadlines.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "server/observability/observer.h"
#include "server/queue/batcher.h"
#include "server/queue/in_flight_waiters.h"
#include "server/store/memory/memory_store.h"
#include "server/store/testing/operations.h"
#include "server/testing/gated_store.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::chrono::seconds kLong{30};

v1::ReserveRequest ReserveFor(std::string_view name) {
  v1::ReserveRequest request;
  *request.mutable_record_key() = ToProto(KeyNamed(name));
  *request.add_fingerprints() = ToProto(Fingerprint{1, std::string(32, 'a')});
  request.set_on_lease_expiry(v1::LEASE_EXPIRY_TAKE_OVER);
  return request;
}

v1::CompleteRequest CompleteFor(std::string_view name, const std::string& token) {
  v1::CompleteRequest request;
  *request.mutable_record_key() = ToProto(KeyNamed(name));
  request.set_reservation_token(token);
  request.mutable_reply()->set_body("done");
  return request;
}

template <typename Response>
using Answer = std::future<absl::StatusOr<Response>>;

class DirectConnectionTest : public ::testing::Test {
 protected:
  // Operations are answered before the objects that they use are destroyed.
  ~DirectConnectionTest() override {
    store_.Open();
    connection_.reset();
    waiters_.Close();
    batcher_.Close();
  }

  static SteadyTime In(std::chrono::steady_clock::duration time) {
    return std::chrono::steady_clock::now() + time;
  }

  Answer<v1::ReserveResponse> Reserve(const v1::ReserveRequest& request, SteadyTime deadline) {
    auto answered = std::make_shared<std::promise<absl::StatusOr<v1::ReserveResponse>>>();
    connection_->Reserve(request, deadline, [answered](absl::StatusOr<v1::ReserveResponse> answer) {
      answered->set_value(std::move(answer));
    });
    return answered->get_future();
  }
  Answer<v1::CompleteResponse> Complete(const v1::CompleteRequest& request) {
    auto answered = std::make_shared<std::promise<absl::StatusOr<v1::CompleteResponse>>>();
    connection_->Complete(request, In(kLong),
                          [answered](absl::StatusOr<v1::CompleteResponse> answer) {
                            answered->set_value(std::move(answer));
                          });
    return answered->get_future();
  }
  std::string Grant(std::string_view name) {
    const auto answer = Reserve(ReserveFor(name), In(kLong)).get();
    EXPECT_TRUE(answer.ok() && answer->has_reserved()) << answer.status();
    return answer->reserved().reservation_token();
  }

  MemoryStore memory_{Clock::System()};
  GatedStore store_{memory_};
  Observer nobody_;
  Batcher batcher_{store_, nobody_};
  InFlightWaiters waiters_{batcher_, nobody_};
  Operations operations_{batcher_, waiters_, nobody_};
  std::unique_ptr<DirectConnection> connection_ =
      std::make_unique<DirectConnection>(nullptr, operations_);
};

// The service keeps a call past its deadline while its store does not answer.
TEST(CallDeadlinesTest, ACallExpiresOnce) {
  const SteadyTime start;
  CallDeadlines deadlines;
  EXPECT_EQ(deadlines.next(), SteadyTime::max());
  deadlines.Add(start + std::chrono::seconds(2), 1);
  deadlines.Add(start + std::chrono::seconds(1), 2);
  deadlines.Add(start + std::chrono::seconds(3), 3);
  EXPECT_EQ(deadlines.next(), start + std::chrono::seconds(1));
  EXPECT_THAT(deadlines.TakeExpired(start + std::chrono::seconds(2)), ElementsAre(2, 1));
  EXPECT_THAT(deadlines.TakeExpired(start + std::chrono::seconds(2)), IsEmpty());
  EXPECT_EQ(deadlines.next(), start + std::chrono::seconds(3));
  deadlines.Remove(start + std::chrono::seconds(2), 1);
  deadlines.Remove(start + std::chrono::seconds(3), 3);
  EXPECT_EQ(deadlines.next(), SteadyTime::max());
}

TEST_F(DirectConnectionTest, ReservesCompletesAndReplays) {
  const std::string token = Grant("one");
  ASSERT_TRUE(Complete(CompleteFor("one", token)).get().ok());
  const auto replay = Reserve(ReserveFor("one"), In(kLong)).get();
  ASSERT_TRUE(replay.ok() && replay->has_replay()) << replay.status();
  EXPECT_EQ(replay->replay().reply().body(), "done");
}

TEST_F(DirectConnectionTest, TheServicesRefusalIsItsAnswer) {
  Grant("one");
  const auto lost = Complete(CompleteFor("one", "00000000-0000-4000-8000-000000000000")).get();
  EXPECT_EQ(ReasonOf(lost.status()), Reason::kReservationLost);
  EXPECT_EQ(lost.status().code(), absl::StatusCode::kFailedPrecondition);
}

// It would end a thread of the service, and with it the process.
TEST_F(DirectConnectionTest, AnExceptionOfACallbackHasNoOtherEffect) {
  store_.Shut();
  connection_->Reserve(ReserveFor("one"), In(kLong),
                       [](const auto& /*answer*/) { throw std::runtime_error("no place"); });
  // By the timer.
  connection_->Reserve(ReserveFor("two"), In(std::chrono::milliseconds(20)),
                       [](const auto& /*answer*/) { throw std::runtime_error("too late"); });
  auto next = Reserve(ReserveFor("three"), In(kLong));
  EXPECT_FALSE(Reserve(ReserveFor("four"), In(std::chrono::milliseconds(40))).get().ok());
  store_.Open();
  EXPECT_TRUE(next.get().ok());
  connection_.reset();
}

TEST_F(DirectConnectionTest, TextsThatNoMessageCanCarryAreRefused) {
  v1::ReserveRequest request = ReserveFor("one");
  request.mutable_record_key()->set_scope("\xff");
  const auto refused = Reserve(request, In(kLong)).get();
  EXPECT_EQ(ReasonOf(refused.status()), Reason::kRequestInvalid);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("record_key.scope"));
}

TEST_F(DirectConnectionTest, ARequestOverTheSizeOfAMessageIsRefused) {
  v1::CompleteRequest request = CompleteFor("one", Grant("one"));
  request.mutable_reply()->set_body(std::string(limits::kMaxMessageBytes, 'x'));
  EXPECT_EQ(ReasonOf(Complete(request).get().status()), Reason::kRequestInvalid);
}

TEST_F(DirectConnectionTest, ADeadlineDoesNotWaitForTheStore) {
  store_.Shut();
  // Long enough for a worker of a busy machine to take it before.
  const auto late = Reserve(ReserveFor("one"), In(std::chrono::seconds(2))).get();
  EXPECT_EQ(ReasonOf(late.status()), Reason::kStoreUnavailable);
  EXPECT_EQ(KindOfAnswer(late.status()), AnswerKind::kNone);
  // The store's answer comes afterwards, for nobody.
  store_.Open();
  ASSERT_TRUE(store_.AwaitDone(1));
  EXPECT_TRUE(Reserve(ReserveFor("one"), In(kLong)).get()->has_in_flight());
}

TEST_F(DirectConnectionTest, AWaiterWhoseDeadlineHasPassedIsNeverGranted) {
  const std::string token = Grant("one");
  v1::ReserveRequest waiting = ReserveFor("one");
  waiting.mutable_max_wait()->set_seconds(20);
  // The wait ends in time for the answer; with no time left the call does not wait.
  const auto late = Reserve(waiting, In(std::chrono::milliseconds(50))).get();
  EXPECT_FALSE(late.ok() && late->has_reserved());
  v1::ReleaseRequest release;
  *release.mutable_record_key() = ToProto(KeyNamed("one"));
  release.set_reservation_token(token);
  std::promise<absl::Status> released;
  connection_->Release(release, In(kLong), [&released](absl::StatusOr<v1::ReleaseResponse> answer) {
    released.set_value(answer.status());
  });
  ASSERT_TRUE(released.get_future().get().ok());
  EXPECT_TRUE(Reserve(ReserveFor("one"), In(kLong)).get()->has_reserved());
}

TEST_F(DirectConnectionTest, ItsEndAnswersCallsThatTheStoreHolds) {
  store_.Shut();
  auto held = Reserve(ReserveFor("one"), In(kLong));
  ASSERT_TRUE(store_.AwaitCalls(1));
  connection_.reset();
  EXPECT_EQ(ReasonOf(held.get().status()), Reason::kStoreUnavailable);
}

TEST_F(DirectConnectionTest, ItsEndAnswersCallsThatItsCallbacksBegin) {
  store_.Shut();
  std::promise<absl::Status> answer;
  std::future<absl::Status> answered = answer.get_future();
  DirectConnection& connection = *connection_;
  connection.Reserve(ReserveFor("one"), In(kLong), [&](const auto&) {
    connection.Reserve(ReserveFor("two"), In(kLong),
                       [&](const auto& second) { answer.set_value(second.status()); });
  });
  ASSERT_TRUE(store_.AwaitCalls(1));
  connection_.reset();
  EXPECT_EQ(answered.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  store_.Open();
  EXPECT_EQ(ReasonOf(answered.get()), Reason::kStoreUnavailable);
}

TEST_F(DirectConnectionTest, ItsEndWaitsForACallbackThatRuns) {
  std::promise<void> inside;
  std::promise<void> leave;
  std::atomic<bool> returned{false};
  connection_->Reserve(ReserveFor("one"), In(kLong), [&](const auto&) {
    inside.set_value();
    leave.get_future().wait();
    returned = true;
  });
  inside.get_future().wait();
  std::thread releases([&leave] { leave.set_value(); });
  connection_.reset();
  EXPECT_TRUE(returned);
  releases.join();
}

TEST_F(DirectConnectionTest, ACallbackMayBeginCalls) {
  std::promise<absl::StatusOr<v1::CompleteResponse>> completed;
  connection_->Reserve(ReserveFor("one"), In(kLong), [&](const auto& granted) {
    connection_->Complete(CompleteFor("one", granted->reserved().reservation_token()), In(kLong),
                          [&completed](auto answer) { completed.set_value(std::move(answer)); });
  });
  EXPECT_TRUE(completed.get_future().get().ok());
}

TEST_F(DirectConnectionTest, AClosedServiceIsUnavailable) {
  waiters_.Close();
  batcher_.Close();
  EXPECT_EQ(ReasonOf(Reserve(ReserveFor("one"), In(kLong)).get().status()),
            Reason::kStoreUnavailable);
}

// Deadlines, answers and the end at the same time; for ThreadSanitizer.
TEST_F(DirectConnectionTest, EveryCallIsAnsweredOnce) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 300;
  std::atomic<int> answers{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < kThreads; ++t) {
    callers.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) {
        const auto deadline = In(std::chrono::microseconds(i * 20));
        connection_->Reserve(ReserveFor(absl::StrCat(t, "-", i)), deadline,
                             [&answers](const auto&) { ++answers; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  connection_.reset();
  EXPECT_EQ(answers, kThreads * kCalls);
}

}  // namespace
}  // namespace idempotency::internal
