// Real threads and real time, for ThreadSanitizer.
#include "interceptors/server/reservation/reservation_client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"

#include "client/testing/fake_connection.h"
#include "client/testing/scripted_connection.h"
#include "core/wire_time.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "interceptors/server/connection/replay_cache.h"
#include "interceptors/server/log/guard_log.h"
#include "interceptors/server/testing/sample_reserve_request.h"
#include "tests/support/blocking_call.h"

namespace idempotency::internal {
namespace {

using testing::BlockingCall;
using Operation = FakeConnection::Operation;

constexpr auto kLong = std::chrono::seconds(20);

using SharedRequest = std::shared_ptr<const v1::ReserveRequest>;

SharedRequest RequestFor(const std::string& key) {
  v1::ReserveRequest request = SampleReserveRequest(key);
  *request.mutable_lease() = ToWire(absl::Milliseconds(30));
  return std::make_shared<const v1::ReserveRequest>(std::move(request));
}

Reservation::Grant GrantOf(const SharedRequest& request, const ReserveAnswer& answer) {
  Reservation::Grant grant;
  grant.request = request;
  grant.answer = answer.response;
  grant.lease = FromWire(request->lease());
  grant.lease_deadline = answer.sent + absl::ToChronoNanoseconds(grant.lease);
  return grant;
}

TEST(ReservationClientTest, ManyThreadsReserveAndComplete) {
  constexpr int kThreads = 8;
  constexpr int kEach = 50;
  auto connection = std::make_unique<FakeConnection>();
  FakeConnection& store = *connection;
  store.Fail(Operation::kReserve, MakeError(Reason::kStoreUnavailable, "away"), 20, /*after=*/true);
  store.Fail(Operation::kComplete, MakeError(Reason::kStoreUnavailable, "away"), 20,
             /*after=*/true);
  ReservationClient reservations(std::move(connection), absl::Seconds(10), absl::Seconds(10));
  std::atomic<int> completed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const auto request = RequestFor(std::to_string(t) + "/" + std::to_string(i));
        std::promise<void> done;
        reservations.Request(request, absl::ZeroDuration(), reservations.Now() + kLong,
                             [&](absl::StatusOr<ReserveAnswer> answer) {
                               ASSERT_TRUE(answer.ok());
                               auto reservation = reservations.Hold(GrantOf(request, *answer));
                               reservation->Complete(
                                   std::make_unique<v1::Reply>(),
                                   [&](absl::StatusOr<v1::CompleteResponse> outcome) {
                                     if (outcome.ok()) ++completed;
                                     done.set_value();
                                   });
                             });
        ASSERT_EQ(done.get_future().wait_for(kLong), std::future_status::ready);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(completed, kThreads * kEach);
}

TEST(ReservationClientTest, CloseFailsWhatWaitsAndRefusesWhatComes) {
  auto connection = std::make_unique<FakeConnection>();
  FakeConnection& store = *connection;
  store.Hold(Operation::kReserve);
  ReservationClient reservations(std::move(connection), absl::Seconds(1), absl::Milliseconds(100));
  int failed = 0;
  const auto expect_failure = [&failed](absl::StatusOr<ReserveAnswer> answer) {
    EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable);
    EXPECT_EQ(DetailsOf(answer.status()).retry_delay, absl::Seconds(1));
    ++failed;
  };
  reservations.Request(RequestFor("a"), absl::ZeroDuration(), reservations.Now() + kLong,
                       expect_failure);
  reservations.Request(RequestFor("b"), absl::ZeroDuration(), reservations.Now() + kLong,
                       expect_failure);
  reservations.Close();
  EXPECT_EQ(failed, 2);
  reservations.Request(RequestFor("c"), absl::ZeroDuration(), reservations.Now() + kLong,
                       expect_failure);
  EXPECT_EQ(failed, 3);
  reservations.Close();
}

// A store that outlives the connection to it.
std::unique_ptr<Connection> ConnectionTo(FakeConnection& store) {
  return std::make_unique<ScriptedConnection>(
      [&store](AnyConnectionCall call, Connection::Deadline deadline) {
        store.Send(std::move(call), deadline);
      });
}

// The key would stay reserved until its lease ends.
TEST(ReservationClientTest, AGrantThatArrivesWhileItClosesIsGivenBack) {
  FakeConnection store;
  store.HoldAnswers(Operation::kReserve);
  auto reservations = std::make_unique<ReservationClient>(ConnectionTo(store), absl::Seconds(10),
                                                          absl::Seconds(10));
  std::promise<void> refused;
  reservations->Request(RequestFor("a"), absl::ZeroDuration(), reservations->Now() + kLong,
                        [&](const absl::StatusOr<ReserveAnswer>& answer) {
                          EXPECT_FALSE(answer.ok());
                          refused.set_value();
                        });
  ASSERT_TRUE(store.WaitForCalls(Operation::kReserve, 1));
  BlockingCall<void> destruction([&] { reservations.reset(); });
  refused.get_future().wait();
  EXPECT_TRUE(destruction.AwaitBlocked());
  store.AnswerHeld(Operation::kReserve);
  destruction.Get();
  EXPECT_EQ(store.record().state, v1::RECORD_STATE_RELEASED);
}

class ReserveLimitsTest : public ::testing::Test {
 protected:
  ReserveLimitsTest() {
    auto connection = std::make_unique<FakeConnection>();
    store_ = connection.get();
    store_->Hold(Operation::kReserve);
    ReserveLimits limits;
    limits.of_a_key = 3;
    limits.waiting = 5;
    reservations_.emplace(std::move(connection), absl::Seconds(1), absl::Milliseconds(100), nullptr,
                          std::make_unique<TimerThread>(), limits);
  }
  void Reserve(const std::string& key, absl::Duration max_wait = absl::Seconds(10)) {
    reservations_->Request(RequestFor(key), max_wait, reservations_->Now() + kLong,
                           [this](absl::StatusOr<ReserveAnswer> answer) {
                             if (answer.ok()) answers_.push_back(*answer->response);
                           });
  }

  // So that no caller has a reservation to end.
  void AnswerAll() {
    v1::ReserveResponse in_flight;
    in_flight.mutable_in_flight()->set_attempt(1);
    store_->SetVerdict(in_flight);
    store_->AnswerHeld(Operation::kReserve);
  }

  FakeConnection* store_ = nullptr;
  std::vector<v1::ReserveResponse> answers_;
  std::optional<ReservationClient> reservations_;
};

// A session carries kMaxSessionInFlight; the rest is for other calls.
TEST_F(ReserveLimitsTest, TheDefaultsAreSharesOfASession) {
  const ReserveLimits limits;
  EXPECT_EQ(limits.of_a_key * 16, limits::kMaxSessionInFlight);
  EXPECT_EQ(limits.waiting * 2, limits::kMaxSessionInFlight);
  EXPECT_EQ(limits.pursued, 1024u);
}

TEST_F(ReserveLimitsTest, DuplicatesOfAKeyOverItsShareAreInFlightAtOnce) {
  for (int i = 0; i < 3; ++i) Reserve("hot");
  EXPECT_EQ(answers_.size(), 0u);
  for (int i = 0; i < 100; ++i) Reserve("hot");
  ASSERT_EQ(answers_.size(), 100u);
  EXPECT_TRUE(answers_.back().has_in_flight());
  EXPECT_GT(FromWire(answers_.back().in_flight().retry_after()), absl::ZeroDuration());
  EXPECT_EQ(store_->calls(Operation::kReserve), 3);
  Reserve("calm");
  EXPECT_EQ(store_->calls(Operation::kReserve), 4);

  AnswerAll();
  EXPECT_EQ(answers_.size(), 104u);
  Reserve("hot");
  EXPECT_EQ(store_->calls(Operation::kReserve), 5) << "its places are free again";
}

TEST_F(ReserveLimitsTest, WaitersOfAllKeysLeaveRoomForOtherCalls) {
  for (int i = 0; i < 5; ++i) Reserve(std::to_string(i));
  Reserve("one-more");
  AnswerAll();
  EXPECT_EQ(store_->calls(Operation::kReserve), 6);
  EXPECT_FALSE(store_->last_reserve().has_max_wait()) << "answered at once";

  Reserve("later");
  EXPECT_TRUE(store_->last_reserve().has_max_wait());
}

TEST_F(ReserveLimitsTest, CallsThatDoNotWaitTakeNoWaitersPlace) {
  for (int i = 0; i < 5; ++i) Reserve(std::to_string(i), absl::ZeroDuration());
  Reserve("waits");
  AnswerAll();
  EXPECT_EQ(store_->calls(Operation::kReserve), 6);
  EXPECT_TRUE(store_->last_reserve().has_max_wait());
}

TEST(ReservationClientTest, CachedRepliesNeedNoStoreAndAreNotReturnedOnceClosed) {
  auto connection = std::make_unique<FakeConnection>();
  FakeConnection& store = *connection;
  const auto cache = std::make_shared<ReplayCache>(
      ReplayCacheOptions{1024 * 1024, absl::Minutes(10)}, Clock::System());
  ReservationClient reservations(std::move(connection), absl::Seconds(1), absl::Milliseconds(100),
                                 cache);
  const auto request = RequestFor("known");
  v1::ReserveResponse replay;
  replay.mutable_replay()->mutable_reply()->set_body("body");
  const absl::Time now = absl::Now();
  replay.mutable_replay()->mutable_completed_at()->set_seconds(absl::ToUnixSeconds(now));
  replay.mutable_replay()->mutable_expires_at()->set_seconds(
      absl::ToUnixSeconds(now + absl::Hours(1)));
  cache->KeepVerdict(*request, std::make_shared<const v1::ReserveResponse>(replay), cache->Now());
  const auto known = reservations.FindReplay(*request);
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(known->replay().reply().body(), "body");
  EXPECT_EQ(reservations.FindReplay(*RequestFor("other")), nullptr);
  EXPECT_EQ(store.calls(Operation::kReserve), 0);
  reservations.Close();
  EXPECT_EQ(reservations.FindReplay(*request), nullptr);
  absl::Status answered;
  reservations.Request(request, absl::ZeroDuration(), reservations.Now() + kLong,
                       [&](const auto& answer) { answered = answer.status(); });
  EXPECT_EQ(ReasonOf(answered), Reason::kStoreUnavailable);
}

TEST(ReservationClientTest, CallersThatWaitWhenTheGuardIsDestroyedGetTheReason) {
  auto connection = std::make_unique<FakeConnection>();
  connection->Hold(Operation::kReserve);
  absl::Status refusal;
  {
    ReservationClient reservations(std::move(connection), absl::Seconds(1), absl::Milliseconds(10));
    reservations.Request(RequestFor("a"), absl::ZeroDuration(), reservations.Now() + kLong,
                         [&refusal](const auto& answer) { refusal = answer.status(); });
  }
  EXPECT_NE(refusal.message().find("shutting down"), std::string::npos) << refusal;
}

TEST(ReservationClientTest, DestructorWaitsForARecording) {
  auto connection = std::make_unique<FakeConnection>();
  FakeConnection& store = *connection;
  store.Hold(Operation::kComplete);
  std::atomic<bool> acknowledged{false};
  std::thread late;
  {
    ReservationClient reservations(std::move(connection), absl::Seconds(10), absl::Seconds(10));
    const auto request = RequestFor("a");
    reservations.Request(request, absl::ZeroDuration(), reservations.Now() + kLong,
                         [&](absl::StatusOr<ReserveAnswer> answer) {
                           reservations.Hold(GrantOf(request, *answer))
                               ->Complete(std::make_unique<v1::Reply>(), [&](const auto& outcome) {
                                 acknowledged = outcome.ok();
                               });
                         });
    late = std::thread([&store] {
      EXPECT_TRUE(store.WaitForCalls(Operation::kExtend, 2));
      store.AnswerHeld(Operation::kComplete);
    });
    late.join();
  }
  EXPECT_TRUE(acknowledged);
}

// The log of a guard that is destroyed while a reply is being recorded.
std::vector<std::string> LinesAtTheEnd(bool acknowledged) {
  std::vector<std::string> lines;
  auto connection = std::make_unique<FakeConnection>();
  if (!acknowledged) connection->Hold(Operation::kComplete);
  auto log = std::make_shared<GuardLog>(
      [&lines](LogSeverity, std::string_view line) { lines.emplace_back(line); });
  std::optional<ReservationClient> reservations(
      std::in_place, std::move(connection), absl::Seconds(10), absl::Milliseconds(20), nullptr,
      std::make_unique<TimerThread>(), ReserveLimits(), std::move(log));
  const auto request = RequestFor("a");
  reservations->Request(request, absl::ZeroDuration(), reservations->Now() + kLong,
                        [&](absl::StatusOr<ReserveAnswer> answer) {
                          reservations->Hold(GrantOf(request, *answer))
                              ->Complete(std::make_unique<v1::Reply>(), [](const auto&) {});
                        });
  reservations.reset();
  return lines;
}

TEST(ReservationClientTest, DestructorStopsWaitingAtTheLimitAndLogsIt) {
  const auto lines = LinesAtTheEnd(/*acknowledged=*/false);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("guard destroyed with unrecorded operations"), std::string::npos)
      << lines[0];
  EXPECT_TRUE(LinesAtTheEnd(/*acknowledged=*/true).empty());
}

}  // namespace
}  // namespace idempotency::internal
