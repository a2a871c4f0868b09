#include "client/retries/retry_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "client/testing/till_server.h"
#include "core/testing/manual_clock.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"

namespace idempotency::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testdata::ChargeReply;
using testdata::ChargeRequest;
using testdata::Till;
using testdata::TillServer;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Pair;
using ::testing::SizeIs;

;

class CallWithRetriesTest : public ::testing::Test {
 protected:
  CallWithRetriesTest() { retries_.budget = &budget_; }
  // Runs with a call that answers with `answers` in order, the last for ever.
  grpc::Status Run(std::vector<grpc::Status> answers,
                   std::chrono::steady_clock::duration window = minutes(10)) {
    tries_ = 0;
    return CallWithRetries(
        "order-42", clock_.Monotonic() + window,
        [&](grpc::ClientContext&) { return answers[std::min(tries_++, answers.size() - 1)]; },
        retries_, time_);
  }
  static grpc::Status Failed(grpc::StatusCode code) { return grpc::Status(code, "failed"); }

  ManualClock clock_;
  const RetryTime time_{clock_, [this](absl::Duration pause) {
                          pauses_.push_back(pause);
                          clock_.Advance(pause);
                        }};
  RetryBudget budget_;
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

TEST_F(CallWithRetriesTest, PausesAreDrawnBetweenTheirBounds) {
  retries_.min_backoff = absl::Seconds(1);
  retries_.max_backoff = absl::Seconds(5);
  std::vector<grpc::Status> answers(20, Failed(grpc::StatusCode::UNAVAILABLE));
  answers.push_back(grpc::Status::OK);
  ASSERT_TRUE(Run(answers).ok());
  ASSERT_THAT(pauses_, SizeIs(20));
  EXPECT_LE(pauses_[0], absl::Seconds(3));
  EXPECT_THAT(pauses_, Each(AllOf(Ge(absl::Seconds(1)), Le(absl::Seconds(5)))));
}

TEST_F(CallWithRetriesTest, AnAnswerOfTheGuardIsNotRetried) {
  const grpc::Status reused = ToGrpcStatus(MakeError(Reason::kKeyReused, "another request"));
  EXPECT_EQ(ReasonOf(FromGrpcStatus(Run({reused}))), Reason::kKeyReused);
  EXPECT_EQ(tries_, 1u);
}

TEST_F(CallWithRetriesTest, AbortedIsRetriedOnlyIfItIsNamed) {
  const grpc::Status aborted = Failed(grpc::StatusCode::ABORTED);
  EXPECT_EQ(Run({aborted, grpc::Status::OK}).error_code(), grpc::StatusCode::ABORTED);
  retries_.also_retried = {grpc::StatusCode::ABORTED};
  EXPECT_TRUE(Run({aborted, grpc::Status::OK}).ok());
  EXPECT_EQ(tries_, 2u);
}

TEST_F(CallWithRetriesTest, AnEmptyBudgetReturnsTheLastStatus) {
  RetryBudgetOptions options;
  options.retries_per_second = 0;
  options.max_tokens = 3;
  RetryBudget budget(options);
  retries_.budget = &budget;
  EXPECT_EQ(Run({Failed(grpc::StatusCode::UNAVAILABLE)}).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(tries_, 4u);
  // Shared: retries that one call took are not available to the next one.
  EXPECT_FALSE(Run({Failed(grpc::StatusCode::UNAVAILABLE), grpc::Status::OK}).ok());
  EXPECT_EQ(tries_, 1u);
}

TEST_F(CallWithRetriesTest, FirstTriesFillTheBudget) {
  RetryBudgetOptions options;
  options.retries_per_second = 0;
  options.retries_per_call = 0.5;
  options.max_tokens = 1;
  RetryBudget budget(options);
  retries_.budget = &budget;
  ASSERT_TRUE(budget.TakeRetry());
  Run({grpc::Status::OK});
  EXPECT_TRUE(Run({Failed(grpc::StatusCode::UNAVAILABLE), grpc::Status::OK}).ok());
}

TEST_F(CallWithRetriesTest, WithoutABudgetOnlyTheDeadlineBounds) {
  retries_.budget = nullptr;
  retries_.max_backoff = absl::Milliseconds(100);
  Run({Failed(grpc::StatusCode::UNAVAILABLE)}, minutes(1));
  EXPECT_GT(tries_, 500u);
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

TEST_F(CallWithRetriesTest, APauseThatWouldTakeAllThatIsLeftIsNotMade) {
  retries_.min_backoff = absl::Seconds(60);
  retries_.max_backoff = absl::Seconds(60);
  EXPECT_EQ(Run({Failed(grpc::StatusCode::UNAVAILABLE)}, seconds(60)).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(tries_, 1u);
  EXPECT_THAT(pauses_, IsEmpty());
}

TEST_F(CallWithRetriesTest, StoppedWhileATryRunsThereIsNoPauseAfterIt) {
  RetryCanceller canceller;
  retries_.canceller = &canceller;
  const grpc::Status status = CallWithRetries(
      "order-42", clock_.Monotonic() + minutes(10),
      [&](grpc::ClientContext&) {
        canceller.Cancel();
        return Failed(grpc::StatusCode::UNAVAILABLE);
      },
      retries_, time_);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(pauses_, IsEmpty());
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
      retries_, time_);
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
                  retries_, time_)
                  .ok());
}

// Through a server and the real clock: one key, a deadline per try, and the thread's own sleep.
TEST_F(CallWithRetriesTest, TriesOfOneCallShareItsKey) {
  TillServer server;
  server.Script({{Failed(grpc::StatusCode::UNAVAILABLE), {}, false, false},
                 {grpc::Status::OK, {}, false, true},
                 {Failed(grpc::StatusCode::INTERNAL), {}, true, false}});
  grpc::ChannelArguments no_retries;
  no_retries.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  const auto stub = Till::NewStub(server.Dial(no_retries));
  CallRetries retries;
  retries.try_timeout = absl::Milliseconds(500);
  retries.min_backoff = absl::Milliseconds(5);
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

TEST_F(CallWithRetriesTest, PushbackSetsThePauseAndCanForbid) {
  TillServer server;
  grpc::ChannelArguments no_retries;
  no_retries.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  const auto stub = Till::NewStub(server.Dial(no_retries));
  server.Script({{Failed(grpc::StatusCode::UNAVAILABLE), "20000", false, false},
                 {Failed(grpc::StatusCode::UNAVAILABLE), "-1", false, false}});
  ChargeRequest request;
  ChargeReply reply;
  const grpc::Status status = CallWithRetries(
      "order-42", clock_.Monotonic() + minutes(10),
      [&](grpc::ClientContext& context) { return stub->Charge(&context, request, &reply); },
      retries_, time_);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(server.arrivals(), SizeIs(2));
  EXPECT_THAT(pauses_, ElementsAre(Ge(absl::Seconds(20))));
}

// Keys in memory, and what happened to them.
class FakeKeyStore final : public KeyStore {
 public:
  absl::StatusOr<std::string> KeyFor(std::string_view work) override {
    if (const auto before = std::exchange(before_key_for, nullptr)) before();
    if (broken) return MakeError(Reason::kStoreUnavailable, "disk full");
    auto [entry, added] = keys.try_emplace(std::string(work), "");
    if (added) entry->second = "key-" + std::to_string(++made_);
    return entry->second;
  }
  absl::Status Forget(std::string_view work, std::string_view key) override {
    const auto entry = keys.find(std::string(work));
    if (entry != keys.end() && entry->second == key) keys.erase(entry);
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<Entry>> Unfinished() override { return std::vector<Entry>(); }

  std::map<std::string, std::string> keys;
  // Another process's part, once.
  std::function<void()> before_key_for;
  bool broken = false;

 private:
  int made_ = 0;
};

class StoredKeyTest : public CallWithRetriesTest {
 protected:
  // Settles if requested to, and records whether it was requested.
  grpc::Status RunWork(std::vector<grpc::Status> answers, bool settles) {
    tries_ = 0;
    settled_ = 0;
    return CallWithRetries(
        keys_, "order-42/charge", clock_.Monotonic() + minutes(1), [this] { return done_; },
        [&](grpc::ClientContext&) {
          EXPECT_THAT(keys_.keys, SizeIs(1)) << "sent before it was stored";
          return answers[std::min(tries_++, answers.size() - 1)];
        },
        [&](const grpc::Status& status) {
          ++settled_;
          EXPECT_EQ(status.error_code(), answers.back().error_code());
          EXPECT_THAT(keys_.keys, SizeIs(1)) << "forgotten before it was settled";
          return settles;
        },
        retries_, time_);
  }

  FakeKeyStore keys_;
  int settled_ = 0;
  // What the application's database answers.
  absl::StatusOr<bool> done_ = false;
};

// The key that the loop would send belongs to no run before it.
TEST_F(StoredKeyTest, WorkThatAnotherProcessSettlesMeanwhileIsNotSentAgain) {
  std::vector<std::string> sent;
  bool paid = false;
  const auto run = [&] {
    return CallWithRetries(
        keys_, "order-42/charge", clock_.Monotonic() + minutes(1), [&] { return paid; },
        [&](grpc::ClientContext&) {
          sent.push_back(keys_.keys["order-42/charge"]);
          return grpc::Status::OK;
        },
        [&](const grpc::Status&) { return paid = true; }, retries_, time_);
  };
  keys_.before_key_for = [&] { EXPECT_TRUE(run().ok()); };
  EXPECT_TRUE(run().ok());
  EXPECT_THAT(sent, ElementsAre("key-1"));
  EXPECT_THAT(keys_.keys, IsEmpty());
}

TEST_F(StoredKeyTest, IsForgottenOnceTheWorkIsDone) {
  done_ = true;
  EXPECT_TRUE(RunWork({grpc::Status::OK}, true).ok());
  EXPECT_EQ(tries_, 0u);
  EXPECT_EQ(settled_, 0);
  EXPECT_THAT(keys_.keys, IsEmpty());
}

TEST_F(StoredKeyTest, NothingIsSentWhileItIsUnknownWhetherTheWorkIsDone) {
  done_ = absl::UnavailableError("the database is away");
  const grpc::Status status = RunWork({grpc::Status::OK}, true);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "the database is away");
  EXPECT_EQ(tries_, 0u);
  EXPECT_EQ(settled_, 0);
  EXPECT_THAT(keys_.keys, ElementsAre(Pair("order-42/charge", "key-1")));
}

TEST_F(StoredKeyTest, IsForgottenOnceTheOutcomeIsSettled) {
  EXPECT_TRUE(RunWork({Failed(grpc::StatusCode::UNAVAILABLE), grpc::Status::OK}, true).ok());
  EXPECT_EQ(settled_, 1);
  EXPECT_THAT(keys_.keys, IsEmpty());
}

TEST_F(StoredKeyTest, StaysWhenTheOutcomeCouldNotBeSettled) {
  EXPECT_TRUE(RunWork({grpc::Status::OK}, false).ok());
  EXPECT_EQ(settled_, 1);
  EXPECT_THAT(keys_.keys, ElementsAre(Pair("order-42/charge", "key-1")));
}

TEST_F(StoredKeyTest, StaysWhileTheOutcomeIsOpen) {
  EXPECT_FALSE(RunWork({Failed(grpc::StatusCode::UNAVAILABLE)}, true).ok());
  EXPECT_EQ(settled_, 0);
  EXPECT_TRUE(RunWork({grpc::Status::OK}, false).ok());
  EXPECT_THAT(keys_.keys, ElementsAre(Pair("order-42/charge", "key-1"))) << "the next run has it";
}

// An outcome that the caller has named as worth a retry is as open as those in the library's own
// list.
TEST_F(StoredKeyTest, StaysWhileACodeThatTheCallerNamedLeavesTheOutcomeOpen) {
  const grpc::Status aborted = Failed(grpc::StatusCode::ABORTED);
  retries_.also_retried = {grpc::StatusCode::ABORTED};
  EXPECT_EQ(RunWork({aborted}, true).error_code(), grpc::StatusCode::ABORTED);
  EXPECT_GT(tries_, 1u);
  EXPECT_EQ(settled_, 0);
  EXPECT_THAT(keys_.keys, ElementsAre(Pair("order-42/charge", "key-1"))) << "the next run has it";
}

TEST_F(StoredKeyTest, StaysWhenTheCallWasStopped) {
  EXPECT_TRUE(RunWork({grpc::Status::OK}, false).ok());
  RetryCanceller canceller;
  canceller.Cancel();
  retries_.canceller = &canceller;
  EXPECT_EQ(RunWork({grpc::Status::OK}, true).error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(settled_, 0);
  EXPECT_THAT(keys_.keys, SizeIs(1));
}

// The store may block.
TEST_F(StoredKeyTest, IsNotRequestedForACallThatCannotBegin) {
  keys_.before_key_for = [] { ADD_FAILURE(); };
  const auto run_until = [&](SteadyTime deadline) {
    return CallWithRetries(
               keys_, "order-42/charge", deadline, [] { return false; },
               [](grpc::ClientContext&) { return grpc::Status::OK; },
               [](const grpc::Status&) { return true; }, retries_, time_)
        .error_code();
  };
  EXPECT_EQ(run_until(clock_.Monotonic()), grpc::StatusCode::DEADLINE_EXCEEDED);
  RetryCanceller canceller;
  canceller.Cancel();
  retries_.canceller = &canceller;
  EXPECT_EQ(run_until(clock_.Monotonic() + minutes(1)), grpc::StatusCode::CANCELLED);
}

TEST_F(StoredKeyTest, AKeyThatIsNeverSentIsRefused) {
  keys_.keys["order-42/charge"] = "a b";
  int settled = 0;
  const auto settle = [&](const grpc::Status& status) {
    EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kKeyInvalid);
    return ++settled > 0;
  };
  CallWithRetries(
      keys_, "order-42/charge", clock_.Monotonic() + minutes(1), [] { return false; },
      [](grpc::ClientContext&) { return grpc::Status::OK; }, settle, retries_, time_);
  EXPECT_EQ(settled, 1);
  EXPECT_THAT(keys_.keys, IsEmpty());
}

// The first try may have run, or an earlier run, before an operator changed what is refused.
TEST_F(StoredKeyTest, StaysWhenATryIsRefused) {
  for (const Reason reason : {Reason::kRequestInvalid, Reason::kKeyInvalid}) {
    const grpc::Status lost = Failed(grpc::StatusCode::UNAVAILABLE);
    const grpc::Status refused = ToGrpcStatus(MakeError(reason, "refused"));
    for (const auto& answers : {std::vector{lost, refused}, std::vector{refused}}) {
      EXPECT_EQ(ReasonOf(FromGrpcStatus(RunWork(answers, true))), reason);
      EXPECT_EQ(settled_, 0) << ReasonName(reason);
      EXPECT_THAT(keys_.keys, ElementsAre(Pair("order-42/charge", "key-1")));
    }
  }
}

// A proxy's, after a lost answer of this run, of an earlier run, or of gRPC's own retries.
TEST_F(StoredKeyTest, StaysWhenTheStatusIsNotOfTheGuard) {
  for (const grpc::StatusCode code :
       {grpc::StatusCode::UNAUTHENTICATED, grpc::StatusCode::PERMISSION_DENIED,
        grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::FAILED_PRECONDITION}) {
    EXPECT_EQ(RunWork({Failed(grpc::StatusCode::UNAVAILABLE), Failed(code)}, true).error_code(),
              code);
    EXPECT_EQ(settled_, 0) << code;
    EXPECT_EQ(RunWork({Failed(code)}, true).error_code(), code);
    EXPECT_EQ(settled_, 0) << code;
    EXPECT_THAT(keys_.keys, ElementsAre(Pair("order-42/charge", "key-1"))) << code;
  }
}

// The caller must find out what happened, and forget the key itself.
TEST_F(StoredKeyTest, StaysWhenTheCallerMustFindOut) {
  for (const Reason reason :
       {Reason::kKeyExpired, Reason::kOutcomeUnknown, Reason::kReservationLost,
        Reason::kReplyNotKept, Reason::kKeyReused, Reason::kRecordDamaged}) {
    const grpc::Status status = ToGrpcStatus(MakeError(reason, "find out"));
    EXPECT_EQ(ReasonOf(FromGrpcStatus(RunWork({status}, true))), reason);
    EXPECT_EQ(settled_, 0) << ReasonName(reason);
    EXPECT_THAT(keys_.keys, ElementsAre(Pair("order-42/charge", "key-1"))) << ReasonName(reason);
  }
}

TEST_F(StoredKeyTest, NothingIsSentWithoutOne) {
  keys_.broken = true;
  EXPECT_EQ(ReasonOf(FromGrpcStatus(RunWork({grpc::Status::OK}, true))), Reason::kStoreUnavailable);
  EXPECT_EQ(tries_, 0u);
  EXPECT_EQ(settled_, 0);
}

// Through a server, for its trailers.
class SettledCallTest : public StoredKeyTest {
 protected:
  // Settles whatever it receives.
  grpc::Status RunCall(const grpc::ChannelArguments& arguments = {}) {
    settled_ = 0;
    grpc::ChannelArguments no_retries = arguments;
    no_retries.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    const auto stub = Till::NewStub(server_.Dial(no_retries));
    ChargeRequest request;
    ChargeReply reply;
    return CallWithRetries(
        keys_, "order-42/charge", clock_.Monotonic() + minutes(1), [] { return false; },
        [&](grpc::ClientContext& context) { return stub->Charge(&context, request, &reply); },
        [&](const grpc::Status&) { return ++settled_ > 0; }, retries_, time_);
  }

  static TillServer::Answer Answer(grpc::StatusCode code,
                                   std::map<std::string, std::string> trailers) {
    return {grpc::Status(code, "failed"), {}, false, false, std::move(trailers)};
  }

  TillServer server_;
};

TEST_F(SettledCallTest, ARecordedFailureIsAnAnswer) {
  const TillServer::Answer lost = Answer(grpc::StatusCode::UNAVAILABLE, {});
  server_.Script({lost, Answer(grpc::StatusCode::PERMISSION_DENIED,
                               {{"idempotency-record", "r"}, {"idempotency-expires", "t"}})});
  EXPECT_EQ(RunCall().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(settled_, 1);
  EXPECT_THAT(keys_.keys, IsEmpty());
  server_.Script({lost, Answer(grpc::StatusCode::NOT_FOUND, {{"idempotency-replayed", "true"}})});
  EXPECT_EQ(RunCall().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(settled_, 1);
  EXPECT_THAT(keys_.keys, IsEmpty());
}

// Every further try would get the same replay.
TEST_F(SettledCallTest, ARecordedFailureOfACodeThatTheCallerNamedIsAnAnswer) {
  retries_.also_retried = {grpc::StatusCode::ABORTED};
  server_.Script({Answer(grpc::StatusCode::ABORTED, {}),
                  Answer(grpc::StatusCode::ABORTED, {{"idempotency-replayed", "true"}}),
                  Answer(grpc::StatusCode::ABORTED, {{"idempotency-replayed", "true"}})});
  EXPECT_EQ(RunCall().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(server_.arrivals(), SizeIs(2));
  EXPECT_EQ(settled_, 1);
  EXPECT_THAT(keys_.keys, IsEmpty());
}

// gRPC makes INTERNAL of an OK whose reply it cannot decode, and leaves its trailers.
TEST_F(SettledCallTest, AnInternalErrorIsNotWithAnyTrailers) {
  for (const auto code : {grpc::StatusCode::INTERNAL, grpc::StatusCode::UNIMPLEMENTED}) {
    retries_.also_retried = {code};
    server_.Script({Answer(code, {{"idempotency-replayed", "true"}})});
    EXPECT_TRUE(RunCall().ok()) << code;
    EXPECT_EQ(settled_, 1);
  }
}

TEST_F(SettledCallTest, AFailureThatTheGuardDidNotRecordIsNot) {
  server_.Script({Answer(grpc::StatusCode::UNAUTHENTICATED, {{"idempotency-record", "r"}})});
  EXPECT_EQ(RunCall().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(settled_, 0);
  EXPECT_THAT(keys_.keys, SizeIs(1));
}

// The handler ran; gRPC ends the call on this side.
TEST_F(SettledCallTest, AReplyOverTheReceiveLimitIsNot) {
  grpc::ChannelArguments limited;
  limited.SetMaxReceiveMessageSize(1);
  server_.Script({{grpc::Status::OK,
                   {},
                   false,
                   false,
                   {{"idempotency-record", "r"}, {"idempotency-expires", "t"}}}});
  const grpc::Status status = RunCall(limited);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(IsOverReceiveLimit(status)) << status.error_message();
  EXPECT_EQ(settled_, 0);
  EXPECT_THAT(keys_.keys, SizeIs(1));
  // With room for it, the same key gets the reply.
  EXPECT_TRUE(RunCall().ok());
  EXPECT_EQ(settled_, 1);
}

TEST_F(SettledCallTest, TrailersOverTheMetadataLimitAreNot) {
  // Over gRPC's default of 8 KiB.
  const std::string large(9'000, 'x');
  server_.Script(
      {Answer(grpc::StatusCode::NOT_FOUND,
              {{"idempotency-record", "r"}, {"idempotency-expires", "t"}, {"x-large", large}})});
  const grpc::Status status = RunCall();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(IsOverReceiveLimit(status)) << status.error_message();
  EXPECT_EQ(settled_, 0);
  EXPECT_THAT(keys_.keys, SizeIs(1));
}

}  // namespace
}  // namespace idempotency::internal
