#include "interceptors/client/call_with_retries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/errors.h"
#include "core/grpc_status.h"
#include "interceptors/client/testdata/till_server.h"

namespace idempotency {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testdata::ChargeReply;
using testdata::ChargeRequest;
using testdata::Till;
using testdata::TillServer;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

// Stands still until somebody sleeps.
class SleptClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch(); }
  std::chrono::steady_clock::time_point Monotonic() const override { return now_; }
  void Advance(absl::Duration by) { now_ += absl::ToChronoNanoseconds(by); }

 private:
  std::chrono::steady_clock::time_point now_{std::chrono::hours(1000)};
};

class CallWithRetriesTest : public ::testing::Test {
 protected:
  CallWithRetriesTest() {
    retries_.clock = &clock_;
    retries_.sleep = [this](absl::Duration pause) {
      pauses_.push_back(pause);
      clock_.Advance(pause);
    };
  }
  // Runs with a call that answers with `answers` in order, the last for ever.
  grpc::Status Run(std::vector<grpc::Status> answers,
                   std::chrono::steady_clock::duration window = minutes(10)) {
    tries_ = 0;
    return CallWithRetries(
        "order-42", clock_.Monotonic() + window,
        [&](grpc::ClientContext&) { return answers[std::min(tries_++, answers.size() - 1)]; },
        retries_);
  }
  static grpc::Status Failed(grpc::StatusCode code) { return grpc::Status(code, "failed"); }

  SleptClock clock_;
  CallRetries retries_;
  std::vector<absl::Duration> pauses_;
  std::size_t tries_ = 0;
};

TEST_F(CallWithRetriesTest, AnAnswerIsReturnedAtOnce) {
  EXPECT_TRUE(Run({grpc::Status::OK}).ok());
  EXPECT_EQ(tries_, 1u);
  EXPECT_EQ(Run({Failed(grpc::StatusCode::FAILED_PRECONDITION)}).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(tries_, 1u);
  EXPECT_THAT(pauses_, IsEmpty());
}

TEST_F(CallWithRetriesTest, RepeatsFarBeyondFiveAttempts) {
  std::vector<grpc::Status> answers(20, Failed(grpc::StatusCode::UNAVAILABLE));
  answers.push_back(grpc::Status::OK);
  EXPECT_TRUE(Run(answers).ok());
  EXPECT_EQ(tries_, 21u);
}

TEST_F(CallWithRetriesTest, PausesGrowWithJitterUpToTheirMaximum) {
  retries_.initial_backoff = absl::Seconds(1);
  retries_.max_backoff = absl::Seconds(5);
  std::vector<grpc::Status> answers(5, Failed(grpc::StatusCode::ABORTED));
  answers.push_back(grpc::Status::OK);
  ASSERT_TRUE(Run(answers).ok());
  ASSERT_THAT(pauses_, SizeIs(5));
  const int longest[] = {1, 2, 4, 5, 5};
  for (int i = 0; i < 5; ++i) {
    EXPECT_GE(pauses_[i], absl::Seconds(longest[i]) / 2) << i;
    EXPECT_LE(pauses_[i], absl::Seconds(longest[i])) << i;
  }
}

TEST_F(CallWithRetriesTest, TwoCallersDoNotPauseAlike) {
  const grpc::Status unavailable = Failed(grpc::StatusCode::UNAVAILABLE);
  Run({unavailable, unavailable, unavailable, grpc::Status::OK});
  Run({unavailable, unavailable, unavailable, grpc::Status::OK});
  ASSERT_THAT(pauses_, SizeIs(6));
  EXPECT_NE(std::vector<absl::Duration>(pauses_.begin(), pauses_.begin() + 3),
            std::vector<absl::Duration>(pauses_.begin() + 3, pauses_.end()));
}

TEST_F(CallWithRetriesTest, RetryInfoIsTheLeastPause) {
  ErrorDetails details;
  details.retry_delay = absl::Seconds(30);
  const grpc::Status in_flight = ToGrpcStatus(MakeError(Reason::kInFlight, "running", details));
  ASSERT_TRUE(Run({in_flight, grpc::Status::OK}).ok());
  EXPECT_THAT(pauses_, ElementsAre(Ge(absl::Seconds(30))));
  EXPECT_THAT(pauses_, ElementsAre(Le(absl::Seconds(31))));
}

TEST_F(CallWithRetriesTest, GivesUpWithTheLastStatusWhenTheDeadlineIsNearer) {
  const grpc::Status status = Run({Failed(grpc::StatusCode::UNAVAILABLE)}, seconds(60));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_GT(tries_, 5u);
  absl::Duration slept;
  for (const absl::Duration pause : pauses_) slept += pause;
  EXPECT_LT(slept, absl::Seconds(60));
  EXPECT_GT(slept, absl::Seconds(45));
}

TEST_F(CallWithRetriesTest, APassedDeadlineTriesNothing) {
  EXPECT_EQ(Run({grpc::Status::OK}, seconds(0)).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(tries_, 0u);
}

TEST_F(CallWithRetriesTest, AnInvalidKeyTriesNothing) {
  int tries = 0;
  const grpc::Status status = CallWithRetries(
      "a b", clock_.Monotonic() + minutes(1),
      [&](grpc::ClientContext&) {
        ++tries;
        return grpc::Status::OK;
      },
      retries_);
  EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kKeyInvalid);
  EXPECT_EQ(tries, 0);
}

TEST_F(CallWithRetriesTest, EndlessDeadlinesAreFine) {
  retries_.try_timeout = absl::InfiniteDuration();
  EXPECT_TRUE(CallWithRetries(
                  "order-42", std::chrono::steady_clock::time_point::max(),
                  [&](grpc::ClientContext& context) {
                    EXPECT_GT(context.deadline(),
                              std::chrono::system_clock::now() + std::chrono::hours(24));
                    return grpc::Status::OK;
                  },
                  retries_)
                  .ok());
}

// Through a server and the real clock: one key, a deadline per try, and the
// thread's own sleep.
TEST_F(CallWithRetriesTest, TriesOfOneCallShareItsKey) {
  TillServer server;
  server.Script({{Failed(grpc::StatusCode::UNAVAILABLE), {}, false, false},
                 {grpc::Status::OK, {}, false, true},
                 {Failed(grpc::StatusCode::ABORTED), {}, true, false}});
  const auto stub = Till::NewStub(server.Dial());
  CallRetries retries;
  retries.try_timeout = absl::Milliseconds(500);
  retries.initial_backoff = absl::Milliseconds(5);
  ChargeRequest request;
  ChargeReply reply;
  const grpc::Status status = CallWithRetries(
      "order-42", std::chrono::steady_clock::now() + seconds(30),
      [&](grpc::ClientContext& context) { return stub->Charge(&context, request, &reply); },
      retries);
  EXPECT_TRUE(status.ok()) << status.error_message();
  const auto arrivals = server.arrivals();
  ASSERT_THAT(arrivals, SizeIs(4));
  for (const auto& arrival : arrivals) EXPECT_THAT(arrival.keys, ElementsAre("order-42"));
  EXPECT_GE(arrivals[2].at - arrivals[1].at, milliseconds(450));
}

}  // namespace
}  // namespace idempotency
