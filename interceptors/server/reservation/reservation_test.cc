#include "interceptors/server/reservation/reservation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/testing/fake_connection.h"
#include "core/answer_kind.h"
#include "core/wire_time.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/reply.h"
#include "grpc_idempotency/uuid.h"
#include "interceptors/server/log/guard_log.h"
#include "interceptors/server/testing/fake_scheduler.h"
#include "interceptors/server/testing/sample_reserve_request.h"

namespace idempotency::internal {
namespace {

using Operation = FakeConnection::Operation;

const std::string kLargeBody(64 * 1024, 'x');

// As a connection reports a status without a reason.
absl::Status Replaced(absl::StatusCode code) {
  ErrorDetails details;
  details.metadata[std::string(kStatusCodeDetail)] = absl::StrCat(static_cast<int>(code));
  return MakeError(Reason::kStoreUnavailable, "no reason", std::move(details));
}

absl::Status Away() { return MakeError(Reason::kStoreUnavailable, "away"); }

class ReservationTest : public testing::Test {
 protected:
  ReservationTest() {
    v1::ReserveRequest request = SampleReserveRequest();
    request.set_request_token(Uuid::Random().ToString());
    *request.mutable_lease() = ToWire(absl::Seconds(30));
    request.set_on_lease_expiry(v1::LEASE_EXPIRY_TAKE_OVER);
    grant_.request = std::make_shared<const v1::ReserveRequest>(request);
    grant_.lease = absl::Seconds(30);
    grant_.lease_deadline = scheduler_.Now() + std::chrono::seconds(30);
    store_.Reserve(
        request, Connection::Deadline::max(),
        [this](absl::StatusOr<v1::ReserveResponse> answer) { SetAnswer(*std::move(answer)); });
    Start();
  }

  void SetAnswer(v1::ReserveResponse answer) {
    grant_.answer = std::make_shared<const v1::ReserveResponse>(std::move(answer));
  }
  // Another attempt left an unknown outcome.
  void StartRecovering() {
    v1::ReserveResponse answer = *grant_.answer;
    answer.mutable_reserved()->set_recovering(true);
    SetAnswer(std::move(answer));
    Start();
  }
  void Start(absl::Duration max_lease = limits::kDefaultMaxLease) {
    if (reservation_ != nullptr) reservation_->LetLapse();
    grant_.max_lease = max_lease;
    reservation_ =
        Reservation::Make(std::make_shared<const StoreContext>(StoreContext{
                              store_, scheduler_, requests_, recordings_, Places(1), log_}),
                          grant_, absl::Seconds(5));
    reservation_->Start();
    reservation_->OnLost([this](const Reservation& /*lost*/) { ++lost_; });
  }
  void Checkpoint(std::string progress) {
    reservation_->Checkpoint(std::move(progress),
                             [this](const absl::Status& answer) { stored_.push_back(answer); });
  }

  void Complete(std::string body = "body") {
    v1::Reply reply;
    reply.set_body(std::move(body));
    reservation_->Complete(std::make_unique<v1::Reply>(reply),
                           [this](absl::StatusOr<v1::CompleteResponse> outcome) {
                             ++answers_;
                             outcome_ = outcome.status();
                           });
  }
  void Release(v1::ReleaseOutcome outcome = v1::RELEASE_OUTCOME_NOTHING_HAPPENED,
               absl::Duration pause = absl::ZeroDuration()) {
    reservation_->Release(
        "reason", outcome, [this] { ++answers_; }, pause);
  }
  // As if the method had declared it.
  void StartUnder(v1::LeaseExpiry on_lease_expiry) {
    v1::ReserveRequest request = *grant_.request;
    request.set_on_lease_expiry(on_lease_expiry);
    grant_.request = std::make_shared<const v1::ReserveRequest>(request);
    Start();
  }
  // As if the method had declared such a short lease.
  void StartWithLease(absl::Duration lease, absl::Duration max_lease = limits::kDefaultMaxLease) {
    grant_.lease = lease;
    grant_.lease_deadline = scheduler_.Now() + absl::ToChronoNanoseconds(lease);
    Start(max_lease);
  }
  void ExpectRecorded(bool with_content) {
    EXPECT_EQ(store_.record().state, v1::RECORD_STATE_COMPLETED);
    EXPECT_EQ(IsComplete(store_.record().reply), with_content);
  }
  // True if all work is done and no task is scheduled.
  bool Ended() {
    return recordings_->WaitUntilIdle(std::chrono::steady_clock::now()) &&
           scheduler_.pending() == 0;
  }

  FakeScheduler scheduler_;
  FakeConnection store_{scheduler_};
  std::shared_ptr<OutstandingWork> requests_ = std::make_shared<OutstandingWork>();
  std::shared_ptr<OutstandingWork> recordings_ = std::make_shared<OutstandingWork>();
  std::vector<std::string> lines_;
  std::shared_ptr<GuardLog> log_ = std::make_shared<GuardLog>(
      [this](LogSeverity, std::string_view line) { lines_.emplace_back(line); });
  std::shared_ptr<Reservation> reservation_;
  Reservation::Grant grant_;
  int answers_ = 0;
  int lost_ = 0;
  std::vector<absl::Status> stored_;
  absl::Status outcome_;
};

TEST_F(ReservationTest, ExtendsAtAThirdOfTheLease) {
  scheduler_.Advance(absl::Milliseconds(9'999));
  EXPECT_EQ(store_.calls(Operation::kExtend), 0);
  scheduler_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(store_.calls(Operation::kExtend), 1);
  scheduler_.Advance(absl::Seconds(100));
  EXPECT_EQ(store_.calls(Operation::kExtend), 11);
  EXPECT_FALSE(reservation_->lost());
  Complete();
}

// A grant that was requested again has the remaining time of its lease.
TEST_F(ReservationTest, TheFirstHeartbeatComesAtAThirdOfTheLeaseThatIsLeft) {
  grant_.lease_deadline = scheduler_.Now() + std::chrono::seconds(6);
  Start();
  scheduler_.Advance(absl::Milliseconds(1'999));
  EXPECT_EQ(store_.calls(Operation::kExtend), 0);
  scheduler_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(store_.calls(Operation::kExtend), 1);
  // After that from the whole lease, which the heartbeat extended.
  scheduler_.Advance(absl::Milliseconds(9'999));
  EXPECT_EQ(store_.calls(Operation::kExtend), 1);
  scheduler_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(store_.calls(Operation::kExtend), 2);
  EXPECT_EQ(lost_, 0);
  Complete();
}

// A try that gets no answer ends long before the lease, so that the next one saves it.
TEST_F(ReservationTest, AHeartbeatWithoutAnAnswerIsSoonFollowedByAnother) {
  store_.Hold(Operation::kExtend);
  // The first one is due at 10 s, and is given up at 12 s.
  scheduler_.Advance(absl::Seconds(13));
  EXPECT_EQ(store_.calls(Operation::kExtend), 2);
  // The second one is answered within its time, and the heartbeats continue.
  store_.AnswerHeld(Operation::kExtend);
  scheduler_.Advance(absl::Seconds(60));
  EXPECT_GE(store_.calls(Operation::kExtend), 6);
  EXPECT_EQ(lost_, 0);
  Complete();
}

TEST_F(ReservationTest, ACompletionWithoutAnAnswerIsSoonFollowedByAnother) {
  store_.Hold(Operation::kComplete);
  Complete();
  scheduler_.Advance(absl::Milliseconds(2'500));
  EXPECT_EQ(store_.calls(Operation::kComplete), 2);
  store_.AnswerHeld(Operation::kComplete);
  scheduler_.Advance(absl::Seconds(2));
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(outcome_.ok()) << outcome_;
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, AReleaseWithoutAnAnswerIsSoonFollowedByAnother) {
  store_.Hold(Operation::kRelease);
  Release();
  scheduler_.Advance(absl::Milliseconds(2'500));
  EXPECT_EQ(store_.calls(Operation::kRelease), 2);
  store_.AnswerHeld(Operation::kRelease);
  scheduler_.Advance(absl::Seconds(2));
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, ACheckpointWithoutAnAnswerIsSoonFollowedByAnother) {
  store_.Hold(Operation::kExtend);
  Checkpoint("half");
  scheduler_.Advance(absl::Milliseconds(2'500));
  EXPECT_EQ(store_.calls(Operation::kExtend), 2);
  store_.AnswerHeld(Operation::kExtend);
  scheduler_.Advance(absl::Seconds(2));
  ASSERT_EQ(stored_.size(), 1u);
  EXPECT_TRUE(stored_[0].ok()) << stored_[0];
  EXPECT_EQ(store_.record().checkpoint, "half");
}

TEST_F(ReservationTest, CompletesOnceAndEnds) {
  Complete();
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(outcome_.ok());
  EXPECT_EQ(store_.record().reply.body(), "body");
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, IsLostWhenTheStoreRefusesTheToken) {
  store_.TakeOver();
  EXPECT_FALSE(reservation_->lost());
  scheduler_.Advance(absl::Seconds(10));
  EXPECT_TRUE(reservation_->lost());
  scheduler_.Advance(absl::Seconds(60));
  EXPECT_EQ(store_.calls(Operation::kExtend), 1);
  Complete();
  EXPECT_EQ(ReasonOf(outcome_), Reason::kReservationLost);
  EXPECT_EQ(outcome_.code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, IsLostWhenTheLeaseRunsOutUnheardAndFoundAgain) {
  // From 10 s on, twice a second: until after the lease.
  store_.Fail(Operation::kExtend, Away(), 45);
  scheduler_.Advance(absl::Milliseconds(29'999));
  EXPECT_FALSE(reservation_->lost());
  scheduler_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(reservation_->lost());
  // The store answers again, and no other attempt took over.
  scheduler_.Advance(absl::Seconds(10));
  EXPECT_FALSE(reservation_->lost());
  Complete();
}

// The store started to count before its answer was sent.
TEST_F(ReservationTest, AnExtendedLeaseIsCountedFromBeforeTheRequest) {
  store_.Hold(Operation::kExtend);
  scheduler_.Advance(absl::Seconds(11));
  store_.AnswerHeld(Operation::kExtend);
  // Requested at 10 s, so it ends at 40 s.
  store_.Fail(Operation::kExtend, Away(), 1000);
  scheduler_.Advance(absl::Milliseconds(28'999));
  EXPECT_FALSE(reservation_->lost());
  scheduler_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(reservation_->lost());
  Complete();
}

// The guard's end would answer it otherwise: that nothing is recorded yet.
TEST_F(ReservationTest, AGuardsEndWaitsUntilTheCallerHasItsAnswer) {
  const auto recorded = [this] {
    return recordings_->WaitUntilIdle(std::chrono::steady_clock::now());
  };
  std::vector<bool> at_the_answer;
  reservation_->Complete(std::make_unique<v1::Reply>(),
                         [&](const absl::StatusOr<v1::CompleteResponse>& outcome) {
                           EXPECT_TRUE(outcome.ok()) << outcome.status();
                           at_the_answer.push_back(recorded());
                         });
  EXPECT_EQ(at_the_answer, std::vector<bool>{false});
  EXPECT_TRUE(recorded());
}

TEST_F(ReservationTest, RepeatsCompleteUntilAcknowledged) {
  store_.Fail(Operation::kComplete, Away(), 5);
  Complete();
  EXPECT_EQ(answers_, 0);
  scheduler_.Advance(absl::Seconds(4));
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(outcome_.ok());
  EXPECT_EQ(store_.calls(Operation::kComplete), 6);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, AnswersTheCallerInTimeAndContinuesExtendingAndCompleting) {
  store_.Fail(Operation::kComplete, Away(), 400);
  Complete();
  scheduler_.Advance(absl::Seconds(5));
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(ReasonOf(outcome_), Reason::kOutcomeNotRecorded);
  scheduler_.Advance(absl::Seconds(300));
  EXPECT_EQ(answers_, 1);
  EXPECT_GE(store_.calls(Operation::kExtend), 10);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_COMPLETED);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, ContinuesUntilTheReservationIsLost) {
  store_.Fail(Operation::kComplete, Away(), 10);
  Complete();
  scheduler_.Advance(absl::Seconds(6));
  store_.TakeOver();
  scheduler_.Advance(absl::Seconds(60));
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, RefusedContentIsDropped) {
  store_.Fail(Operation::kComplete, InvalidField("reply.body", "is too large"), 1);
  Complete();
  scheduler_.Advance(absl::Seconds(1));
  EXPECT_TRUE(outcome_.ok());
  EXPECT_EQ(answers_, 1);
  EXPECT_FALSE(IsComplete(store_.record().reply));
}

// A part between guard and store refuses the reply each time, for example a proxy whose limit of
// a message is lower.
class RejectedContentTest : public ReservationTest,
                            public testing::WithParamInterface<absl::Status> {};

INSTANTIATE_TEST_SUITE_P(EachStatus, RejectedContentTest,
                         testing::Values(Replaced(absl::StatusCode::kResourceExhausted),
                                         Replaced(absl::StatusCode::kInvalidArgument),
                                         absl::ResourceExhaustedError("no reason"),
                                         absl::InvalidArgumentError("no reason")));

TEST_P(RejectedContentTest, IsDroppedAfterSomeTries) {
  store_.Fail(Operation::kComplete, GetParam(), 30);
  Complete(kLargeBody);
  scheduler_.Advance(absl::Seconds(5));
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RESERVED) << "a busy proxy may recover";
  scheduler_.Advance(absl::Seconds(15));
  ExpectRecorded(/*with_content=*/false);
  EXPECT_TRUE(Ended());
}

TEST_P(RejectedContentTest, IsDroppedOnce) {
  store_.Fail(Operation::kComplete, GetParam(), 100);
  Complete(kLargeBody);
  scheduler_.Advance(absl::Minutes(2));
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_COMPLETED);
  EXPECT_EQ(std::count_if(lines_.begin(), lines_.end(),
                          [](const std::string& line) {
                            return line.find("without its content") != std::string::npos;
                          }),
            1);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, AProxyThatRefusesLargeRepliesForAWhileCostsNoContent) {
  store_.Fail(Operation::kComplete, Replaced(absl::StatusCode::kResourceExhausted), 29);
  Complete(kLargeBody);
  scheduler_.Advance(absl::Seconds(20));
  ExpectRecorded(/*with_content=*/true);
}

// It refuses small requests too: the size of the reply is not the reason.
TEST_P(RejectedContentTest, IsKeptHoweverLongEveryRequestIsRefused) {
  store_.Fail(Operation::kExtend, GetParam(), 500);
  store_.Fail(Operation::kComplete, GetParam(), 100);
  Complete(kLargeBody);
  scheduler_.Advance(absl::Minutes(2));
  ExpectRecorded(/*with_content=*/true);
}

// Only refusals in a row show that it is the reply.
TEST_P(RejectedContentTest, AnotherAnswerBeginsTheCountAgain) {
  store_.Fail(Operation::kComplete, GetParam(), 20);
  store_.Fail(Operation::kComplete, Away(), 1);
  store_.Fail(Operation::kComplete, GetParam(), 20);
  Complete(kLargeBody);
  scheduler_.Advance(absl::Minutes(2));
  ExpectRecorded(/*with_content=*/true);
}

// Its size is not the reason.
TEST_F(ReservationTest, ASmallReplyKeepsItsContentHoweverLongAProxyIsBusy) {
  store_.Fail(Operation::kComplete, Replaced(absl::StatusCode::kResourceExhausted), 100);
  Complete();
  scheduler_.Advance(absl::Minutes(2));
  ExpectRecorded(/*with_content=*/true);
}

// 8 MiB in 2 s would need 32 Mbit/s.
TEST_F(ReservationTest, ALargeReplyHasMoreTimeToArrive) {
  store_.HoldAnswers(Operation::kComplete);
  Complete(std::string(limits::kMaxReplyBytes - 1024, 'x'));
  scheduler_.Advance(absl::Milliseconds(9'900));
  EXPECT_EQ(store_.calls(Operation::kComplete), 1);
  scheduler_.Advance(absl::Seconds(1));
  EXPECT_EQ(store_.calls(Operation::kComplete), 2);
  store_.AnswerHeld(Operation::kComplete);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, OutcomeThatIsRefusedForGoodIsAbandoned) {
  store_.Fail(Operation::kComplete, InvalidField("reply.message", "not UTF-8"), 1000);
  Complete();
  scheduler_.Advance(absl::Seconds(1));
  EXPECT_EQ(ReasonOf(outcome_), Reason::kOutcomeNotRecorded);
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(store_.calls(Operation::kComplete), 2) << "the second one without its content";
  EXPECT_TRUE(Ended()) << "its lease runs out";
}

TEST_F(ReservationTest, OutcomeIsRepeatedWhileTheGuardIsKeptOut) {
  store_.Fail(Operation::kComplete, absl::PermissionDeniedError("the certificate is too old"), 5);
  Complete();
  scheduler_.Advance(absl::Seconds(5));
  ExpectRecorded(/*with_content=*/true);
  EXPECT_TRUE(Ended());
}

// The daemon refuses the guard itself. Rules are replaced on open sessions: a mistyped one is
// corrected while the guard runs.
class RefusedGuardTest : public ReservationTest, public testing::WithParamInterface<Reason> {
 protected:
  static absl::Status Refusal() { return MakeError(GetParam(), "no rule permits this"); }
  // True if the refusal of `request` is logged.
  bool IsLogged(const std::string& request) {
    const std::string line = "idempotencyd refuses the guard's " + request + ": " +
                             absl::StatusCodeToString(CodeOf(GetParam())) + " no rule permits this";
    return !lines_.empty() && lines_.front().rfind(line, 0) == 0;
  }
};

INSTANTIATE_TEST_SUITE_P(EachReason, RefusedGuardTest,
                         testing::Values(Reason::kAccessDenied, Reason::kCredentialsInvalid),
                         [](const auto& tested) { return std::string(ReasonName(tested.param)); });

TEST_P(RefusedGuardTest, RepeatsAnOutcomeAndExtendsItsLease) {
  store_.Fail(Operation::kComplete, Refusal(), 1000);
  Complete();
  scheduler_.Advance(absl::Minutes(1));
  EXPECT_EQ(ReasonOf(outcome_), Reason::kOutcomeNotRecorded);
  EXPECT_EQ(answers_, 1);
  EXPECT_GE(store_.calls(Operation::kComplete), 60);
  EXPECT_GE(store_.calls(Operation::kExtend), 5);
  EXPECT_FALSE(Ended());
  EXPECT_TRUE(IsLogged("Complete"));
  store_.Recover();
  scheduler_.Advance(absl::Seconds(1));
  ExpectRecorded(/*with_content=*/true);
  EXPECT_TRUE(Ended());
}

// The lease ends meanwhile, and no other attempt can take the record over.
TEST_P(RefusedGuardTest, RecordsAnOutcomeAfterItsLeaseCouldNotBeExtended) {
  store_.Fail(Operation::kExtend, Refusal(), 10'000);
  store_.Fail(Operation::kComplete, Refusal(), 10'000);
  Complete();
  scheduler_.Advance(absl::Minutes(2));
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(ReasonOf(outcome_), Reason::kOutcomeNotRecorded);
  store_.Recover();
  scheduler_.Advance(absl::Seconds(1));
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_COMPLETED);
  EXPECT_TRUE(Ended());
}

TEST_P(RefusedGuardTest, RepeatsARelease) {
  store_.Fail(Operation::kRelease, Refusal(), 3);
  Release();
  EXPECT_EQ(ReasonOf(reservation_->release_answer()), Reason::kOutcomeNotRecorded);
  scheduler_.Advance(absl::Seconds(2));
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_TRUE(reservation_->release_answer().ok());
  EXPECT_TRUE(IsLogged("Release"));
  EXPECT_TRUE(Ended());
}

TEST_P(RefusedGuardTest, RepeatsAReleaseUntilTheLeaseEnds) {
  store_.Fail(Operation::kRelease, Refusal(), 1000);
  Release();
  scheduler_.Advance(absl::Seconds(30));
  EXPECT_EQ(answers_, 1);
  EXPECT_GE(store_.calls(Operation::kRelease), 30);
  EXPECT_EQ(ReasonOf(reservation_->release_answer()), Reason::kOutcomeNotRecorded);
  EXPECT_NE(lines_.back().find("could not be released"), std::string::npos) << lines_.back();
  EXPECT_TRUE(Ended());
}

TEST_P(RefusedGuardTest, RepeatsACheckpoint) {
  store_.Fail(Operation::kExtend, Refusal(), 3);
  Checkpoint("half");
  EXPECT_EQ(stored_.size(), 0u);
  scheduler_.Advance(absl::Seconds(2));
  ASSERT_EQ(stored_.size(), 1u);
  EXPECT_TRUE(stored_[0].ok()) << stored_[0];
  EXPECT_EQ(store_.record().checkpoint, "half");
  Complete();
}

TEST_P(RefusedGuardTest, ACheckpointThatIsNotStoredInTimeIsUnavailable) {
  store_.Fail(Operation::kExtend, Refusal(), 1000);
  Checkpoint("half");
  scheduler_.Advance(absl::Seconds(5));
  ASSERT_EQ(stored_.size(), 1u);
  EXPECT_EQ(ReasonOf(stored_[0]), Reason::kStoreUnavailable);
  store_.Recover();
  Complete();
}

TEST_F(ReservationTest, AReleaseIsRepeatedWhileTheGuardIsKeptOut) {
  store_.Fail(Operation::kRelease, absl::PermissionDeniedError("the certificate is too old"), 3);
  Release();
  scheduler_.Advance(absl::Seconds(2));
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_TRUE(Ended());
}

// The same error passed on by a guard in between, with the code that it stands for.
TEST_F(ReservationTest, OutcomeIsRepeatedWhileSomethingInBetweenIsKeptOut) {
  store_.Fail(Operation::kComplete, Replaced(absl::StatusCode::kPermissionDenied), 3);
  Complete();
  scheduler_.Advance(absl::Seconds(2));
  EXPECT_TRUE(outcome_.ok()) << outcome_;
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, LateAcknowledgementIsNotReportedTwice) {
  store_.Hold(Operation::kComplete);
  Complete();
  scheduler_.Advance(absl::Seconds(5));
  EXPECT_EQ(ReasonOf(outcome_), Reason::kOutcomeNotRecorded);
  store_.AnswerHeld(Operation::kComplete);
  scheduler_.Advance(kTryTimeout + kLongestRepeat);
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, AnUnansweredCompletionIsSentAgainAfterEachTry) {
  store_.HoldAnswers(Operation::kComplete);
  Complete();
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_COMPLETED) << "as far as the store goes";
  scheduler_.Advance(kTryTimeout - absl::Milliseconds(1));
  EXPECT_EQ(store_.calls(Operation::kComplete), 1);
  scheduler_.Advance(absl::Milliseconds(1) + kLongestRepeat);
  EXPECT_EQ(store_.calls(Operation::kComplete), 2);
  EXPECT_EQ(answers_, 0);
  // The reply stored by the first try is acknowledged to the second one.
  store_.AnswerHeld(Operation::kComplete);
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(outcome_.ok()) << outcome_;
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, AHeartbeatThatIsNotAnsweredIsSentAgainBeforeTheLeaseIsOver) {
  store_.HoldAnswers(Operation::kExtend);
  scheduler_.Advance(absl::Seconds(10) + kTryTimeout + kLongestRepeat);
  EXPECT_EQ(store_.calls(Operation::kExtend), 2);
  store_.AnswerHeld(Operation::kExtend);
  scheduler_.Advance(absl::Seconds(25));
  EXPECT_FALSE(reservation_->lost());
  Complete();
}

TEST_F(ReservationTest, AReleaseThatHappenedUnheardIsNotWaitedForPastItsLease) {
  store_.HoldAnswers(Operation::kRelease);
  Release();
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  scheduler_.Advance(kTryTimeout + kLongestRepeat);
  EXPECT_EQ(store_.calls(Operation::kRelease), 2);
  scheduler_.Advance(absl::Seconds(35));
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, ReleasesAndStopsExtending) {
  Release();
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_EQ(store_.record().release_reason, "reason");
  EXPECT_FALSE(reservation_->refused());
  EXPECT_EQ(lost_, 0);
  EXPECT_TRUE(lines_.empty());
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, ReleasesAsUnknown) {
  Release(v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_UNKNOWN);
}

TEST_F(ReservationTest, RepeatsReleaseButNotPastTheLease) {
  store_.Fail(Operation::kRelease, Away(), 1000);
  Release();
  scheduler_.Advance(absl::Seconds(5));
  EXPECT_EQ(answers_, 1);
  EXPECT_FALSE(Ended());
  scheduler_.Advance(absl::Seconds(25));
  EXPECT_TRUE(Ended());
  EXPECT_EQ(store_.calls(Operation::kExtend), 0);
  EXPECT_GT(store_.calls(Operation::kRelease), 5);
}

// Nothing would run again after the lease, although nothing happened.
TEST_F(ReservationTest, UnderRequireRecoveryAReleaseIsRepeatedPastTheLease) {
  StartUnder(v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
  store_.Fail(Operation::kRelease, Away(), 1000);
  Release();
  scheduler_.Advance(absl::Minutes(5));
  EXPECT_EQ(answers_, 1);
  EXPECT_FALSE(Ended());
  store_.Recover();
  scheduler_.Advance(absl::Seconds(1));
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_TRUE(reservation_->release_answer().ok());
  EXPECT_TRUE(Ended());
}

// The default of the service.
TEST_F(ReservationTest, WithoutAChoiceAReleaseIsRepeatedPastTheLease) {
  StartUnder(v1::LEASE_EXPIRY_UNSPECIFIED);
  store_.Fail(Operation::kRelease, Away(), 1000);
  Release();
  scheduler_.Advance(absl::Minutes(5));
  EXPECT_FALSE(Ended());
  reservation_->LetLapse();
}

TEST_F(ReservationTest, AReleaseIsNotRepeatedWithoutEnd) {
  StartUnder(v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
  store_.Fail(Operation::kRelease, Away(), 100'000);
  Release();
  scheduler_.Advance(absl::Seconds(30) + kReleaseAfterLease - absl::Seconds(2));
  EXPECT_FALSE(Ended());
  scheduler_.Advance(absl::Seconds(2));
  EXPECT_TRUE(Ended());
}

// The end of the lease leads to the same.
TEST_F(ReservationTest, AReleaseAsUnknownIsNotRepeatedPastTheLease) {
  StartUnder(v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
  store_.Fail(Operation::kRelease, Away(), 1000);
  Release(v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN);
  scheduler_.Advance(absl::Seconds(30));
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, LetLapseOnlyStopsTheHeartbeats) {
  reservation_->LetLapse();
  scheduler_.Advance(absl::Seconds(60));
  EXPECT_EQ(store_.calls(Operation::kExtend), 0);
  EXPECT_EQ(store_.calls(Operation::kRelease), 0);
  EXPECT_TRUE(Ended());
}

// Beats at 10, 20 ... 80 s, none at 90 s: the lease runs until 110 s.
TEST_F(ReservationTest, HeartbeatsEndWithMaxLeaseAndThenTheExecutionIsLost) {
  Start(absl::Seconds(85));
  scheduler_.Advance(absl::Seconds(80));
  EXPECT_EQ(store_.calls(Operation::kExtend), 8);
  scheduler_.Advance(absl::Milliseconds(29'999));
  EXPECT_EQ(store_.calls(Operation::kExtend), 8);
  EXPECT_FALSE(reservation_->lost());
  EXPECT_EQ(lost_, 0);
  scheduler_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(reservation_->lost());
  EXPECT_EQ(lost_, 1);
  scheduler_.Advance(absl::Minutes(10));
  EXPECT_EQ(store_.calls(Operation::kExtend), 8);
  EXPECT_EQ(lost_, 1);
}

TEST_F(ReservationTest, FailedHeartbeatsEndWithMaxLeaseToo) {
  Start(absl::Seconds(30));
  store_.Fail(Operation::kExtend, Away(), 1000);
  scheduler_.Advance(absl::Minutes(10));
  // At 10 s, and then twice a second until 30 s.
  EXPECT_LE(store_.calls(Operation::kExtend), 41);
  EXPECT_EQ(lost_, 1);
}

TEST_F(ReservationTest, ReplyAfterMaxLeaseIsRecordedWithoutATakeOver) {
  Start(absl::Seconds(30));
  scheduler_.Advance(absl::Minutes(10));
  ASSERT_TRUE(reservation_->lost());
  Complete();
  EXPECT_TRUE(outcome_.ok()) << outcome_;
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, ReplyAfterMaxLeaseIsRefusedIfAnotherTookOver) {
  Start(absl::Seconds(30));
  scheduler_.Advance(absl::Minutes(10));
  store_.TakeOver();
  Complete();
  EXPECT_EQ(ReasonOf(outcome_), Reason::kReservationLost);
  EXPECT_TRUE(DetailsOf(outcome_).retry_delay.has_value());
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, OutcomeAfterMaxLeaseIsExtendedUntilItIsRecorded) {
  Start(absl::Seconds(30));
  scheduler_.Advance(absl::Minutes(1));
  const int beats = store_.calls(Operation::kExtend);
  store_.Fail(Operation::kComplete, Away(), 400);
  Complete();
  scheduler_.Advance(absl::Minutes(1));
  EXPECT_GE(store_.calls(Operation::kExtend), beats + 5);
  scheduler_.Advance(absl::Minutes(5));
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_COMPLETED);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, LossIsReportedAtOnceWhenTheStoreRefusesAHeartbeat) {
  store_.TakeOver();
  scheduler_.Advance(absl::Seconds(10));
  EXPECT_EQ(lost_, 1);
  EXPECT_TRUE(reservation_->refused());
  scheduler_.Advance(absl::Minutes(10));
  Complete();
  EXPECT_EQ(lost_, 1);
}

TEST_F(ReservationTest, LossIsReportedOnceThoughTheLeaseIsFoundAgainAndLostAgain) {
  store_.Fail(Operation::kExtend, Away(), 45);
  scheduler_.Advance(absl::Seconds(40));
  EXPECT_EQ(lost_, 1);
  EXPECT_FALSE(reservation_->lost());
  store_.Fail(Operation::kExtend, Away(), 1000);
  scheduler_.Advance(absl::Minutes(5));
  EXPECT_TRUE(reservation_->lost());
  EXPECT_EQ(lost_, 1);
}

TEST_F(ReservationTest, LossIsReportedToALaterListener) {
  store_.TakeOver();
  scheduler_.Advance(absl::Seconds(10));
  reservation_->OnLost([this](const Reservation& /*lost*/) { lost_ += 10; });
  EXPECT_EQ(lost_, 11);
}

TEST_F(ReservationTest, ReservationThatEndsInTimeIsNeverReportedAsLost) {
  scheduler_.Advance(absl::Seconds(20));
  Complete();
  scheduler_.Advance(absl::Minutes(10));
  EXPECT_EQ(lost_, 0);
  EXPECT_TRUE(Ended());
}

// The store refuses a heartbeat because this attempt has settled the record itself.
TEST_F(ReservationTest, AHeartbeatThatItsOwnCompletionOvertookIsNoLoss) {
  store_.Hold(Operation::kExtend);
  scheduler_.Advance(absl::Seconds(10));
  store_.HoldAnswers(Operation::kComplete);
  Complete();
  store_.AnswerHeld(Operation::kExtend);
  EXPECT_EQ(lost_, 0);
  EXPECT_FALSE(reservation_->refused());
  store_.AnswerHeld(Operation::kComplete);
  EXPECT_TRUE(outcome_.ok()) << outcome_;
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, ACheckpointThatItsOwnReleaseOvertookIsNoLoss) {
  store_.Hold(Operation::kExtend);
  Checkpoint("half");
  store_.HoldAnswers(Operation::kRelease);
  Release();
  store_.AnswerHeld(Operation::kExtend);
  ASSERT_EQ(stored_.size(), 1u);
  EXPECT_EQ(ReasonOf(stored_[0]), Reason::kReservationLost) << "it is not stored";
  EXPECT_EQ(lost_, 0);
  EXPECT_FALSE(reservation_->refused());
  store_.AnswerHeld(Operation::kRelease);
  EXPECT_TRUE(reservation_->release_answer().ok());
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, WithAnAcknowledgedOutcomeItIsNotLeftOpen) {
  StartUnder(v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
  int left_open = 0;
  reservation_->OnLeftOpen([&](const v1::ReserveRequest&) { ++left_open; });
  Complete();
  EXPECT_TRUE(outcome_.ok()) << outcome_;
  EXPECT_EQ(left_open, 0);
}

TEST_F(ReservationTest, LeftToItsLeaseItIsLeftOpen) {
  StartUnder(v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
  std::string left_open;
  reservation_->OnLeftOpen(
      [&](const v1::ReserveRequest& request) { left_open += request.record_key().key(); });
  reservation_->LetLapse();
  EXPECT_EQ(left_open, grant_.request->record_key().key());
}

TEST_F(ReservationTest, ReleasedAsUnknownItIsLeftOpen) {
  int left_open = 0;
  reservation_->OnLeftOpen([&](const v1::ReserveRequest&) { ++left_open; });
  Release(v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN);
  EXPECT_EQ(left_open, 0) << "the next attempt takes over";
  StartUnder(v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
  reservation_->OnLeftOpen([&](const v1::ReserveRequest&) { ++left_open; });
  Release(v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN);
  EXPECT_EQ(left_open, 1);
}

TEST_F(ReservationTest, GivenBackNothingHappened) {
  reservation_->GiveBack("not run", [] {});
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
}

TEST_F(ReservationTest, GivenBackBeforeTheEarlierAttemptIsRecoveredItIsUnknown) {
  StartRecovering();
  reservation_->GiveBack("not run", [] {});
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_UNKNOWN);
}

TEST_F(ReservationTest, GivenBackAfterTheEarlierAttemptIsRecoveredNothingHappened) {
  StartRecovering();
  reservation_->NoteRecovered();
  reservation_->GiveBack("not run", [] {});
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
}

// Its caller had the answer long before.
TEST_F(ReservationTest, ARecordingThatIsLostAfterAnOutageIsLeftOpen) {
  StartUnder(v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
  int left_open = 0;
  reservation_->OnLeftOpen([&](const v1::ReserveRequest&) { ++left_open; });
  store_.Fail(Operation::kComplete, Away(), 1000);
  Complete();
  scheduler_.Advance(absl::Seconds(6));
  EXPECT_EQ(ReasonOf(outcome_), Reason::kOutcomeNotRecorded);
  EXPECT_EQ(left_open, 0);
  store_.TakeOver();
  store_.Recover();
  scheduler_.Advance(absl::Seconds(1));
  EXPECT_EQ(left_open, 1);
}

TEST_F(ReservationTest, RefusedReleaseIsALoss) {
  store_.TakeOver();
  Release();
  EXPECT_EQ(lost_, 1);
  EXPECT_TRUE(reservation_->refused());
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, CheckpointIsStoredAndKeptByHeartbeats) {
  scheduler_.Advance(absl::Seconds(5));
  Checkpoint("half");
  ASSERT_EQ(stored_.size(), 1u);
  EXPECT_TRUE(stored_[0].ok());
  EXPECT_EQ(store_.record().checkpoint, "half");
  // It was a heartbeat: until 35 s.
  store_.Fail(Operation::kExtend, Away(), 1000);
  scheduler_.Advance(absl::Milliseconds(29'999));
  EXPECT_FALSE(reservation_->lost());
  scheduler_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(reservation_->lost());
}

TEST_F(ReservationTest, HeartbeatLeavesTheCheckpointAsItIs) {
  Checkpoint("half");
  scheduler_.Advance(absl::Seconds(50));
  EXPECT_EQ(store_.last_extend().checkpoint(), "");
  EXPECT_EQ(store_.record().checkpoint, "half");
}

TEST_F(ReservationTest, CheckpointOfTheWrongSizeIsRefusedUnsent) {
  Checkpoint("");
  Checkpoint(std::string(limits::kMaxCheckpointBytes + 1, 'x'));
  ASSERT_EQ(stored_.size(), 2u);
  EXPECT_EQ(ReasonOf(stored_[0]), Reason::kRequestInvalid);
  ASSERT_EQ(DetailsOf(stored_[0]).violations.size(), 1u);
  EXPECT_EQ(DetailsOf(stored_[0]).violations[0].field, "checkpoint");
  EXPECT_EQ(ReasonOf(stored_[1]), Reason::kRequestInvalid);
  EXPECT_EQ(store_.calls(Operation::kExtend), 0);
  Checkpoint(std::string(limits::kMaxCheckpointBytes, 'x'));
  EXPECT_TRUE(stored_[2].ok());
}

TEST_F(ReservationTest, CheckpointThatTheStoreRefusesIsALoss) {
  store_.TakeOver();
  Checkpoint("half");
  ASSERT_EQ(stored_.size(), 1u);
  EXPECT_EQ(ReasonOf(stored_[0]), Reason::kReservationLost);
  EXPECT_EQ(stored_[0].code(), absl::StatusCode::kAborted);
  EXPECT_EQ(lost_, 1);
  Checkpoint("whole");
  EXPECT_EQ(ReasonOf(stored_[1]), Reason::kReservationLost);
  EXPECT_EQ(store_.calls(Operation::kExtend), 1);
}

TEST_F(ReservationTest, CheckpointsAreRepeatedAndKeepTheirOrder) {
  store_.Fail(Operation::kExtend, Away(), 3);
  Checkpoint("first");
  Checkpoint("second");
  EXPECT_EQ(stored_.size(), 0u);
  scheduler_.Advance(absl::Seconds(4));
  ASSERT_EQ(stored_.size(), 2u);
  EXPECT_TRUE(stored_[0].ok() && stored_[1].ok());
  EXPECT_EQ(store_.record().checkpoint, "second");
  EXPECT_EQ(store_.calls(Operation::kExtend), 5);
}

TEST_F(ReservationTest, CheckpointThatIsNotAcknowledgedInTimeFails) {
  store_.Hold(Operation::kExtend);
  Checkpoint("first");
  scheduler_.Advance(absl::Seconds(1));
  Checkpoint("second");
  scheduler_.Advance(absl::Seconds(4));
  ASSERT_EQ(stored_.size(), 1u);
  EXPECT_EQ(ReasonOf(stored_[0]), Reason::kStoreUnavailable);
  store_.AnswerHeld(Operation::kExtend);
  scheduler_.Advance(kLongestRepeat);
  ASSERT_EQ(stored_.size(), 2u);
  EXPECT_TRUE(stored_[1].ok());
  EXPECT_EQ(store_.record().checkpoint, "second");
}

TEST_F(ReservationTest, CheckpointsThatPileUpAreRefused) {
  store_.Hold(Operation::kExtend);
  for (std::size_t i = 0; i < CheckpointQueue::kMaxWaiting; ++i) Checkpoint("one of many");
  EXPECT_EQ(stored_.size(), 0u);
  Checkpoint("one too many");
  ASSERT_EQ(stored_.size(), 1u);
  EXPECT_EQ(ReasonOf(stored_[0]), Reason::kOverloaded);
  store_.AnswerHeld(Operation::kExtend);
  EXPECT_EQ(stored_.size(), 1 + CheckpointQueue::kMaxWaiting);
}

TEST_F(ReservationTest, CheckpointIsNoWayToHoldOnPastMaxLease) {
  Start(absl::Seconds(30));
  scheduler_.Advance(absl::Seconds(35));
  Checkpoint("late");
  EXPECT_TRUE(stored_[0].ok());
  EXPECT_EQ(FromWire(store_.last_extend().lease()), limits::kMinLease);
  scheduler_.Advance(absl::Seconds(20));
  ASSERT_TRUE(reservation_->lost());
  const int calls = store_.calls(Operation::kExtend);
  Checkpoint("too late");
  EXPECT_EQ(ReasonOf(stored_[1]), Reason::kReservationLost);
  EXPECT_EQ(store_.calls(Operation::kExtend), calls);
}

TEST_F(ReservationTest, CheckpointAfterTheAnswerIsNotStored) {
  store_.Hold(Operation::kComplete);
  Complete();
  Checkpoint("late");
  EXPECT_EQ(ReasonOf(stored_[0]), Reason::kReservationLost);
  EXPECT_EQ(store_.calls(Operation::kExtend), 0);
  store_.AnswerHeld(Operation::kComplete);
}

// One timer for the next heartbeat, and one for the end of the lease.
TEST_F(ReservationTest, AReservationHoldsTwoTimersHoweverLongItLasts) {
  scheduler_.Advance(absl::Seconds(95));
  EXPECT_EQ(scheduler_.pending(), 2u);
  store_.Fail(Operation::kExtend, Away(), 45);
  scheduler_.Advance(absl::Seconds(60));
  EXPECT_EQ(lost_, 1);
  EXPECT_EQ(scheduler_.pending(), 1u) << "the lease is not watched after its loss was reported";
  Complete();
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, EndingDropsTheTimersAtOnce) {
  scheduler_.Advance(absl::Seconds(10));
  EXPECT_EQ(scheduler_.pending(), 2u);
  reservation_->LetLapse();
  EXPECT_TRUE(Ended());
}

// Task numbers are shared by all users of the scheduler.
TEST(RecordingTimersTest, EndingCancelsNoOtherTask) {
  FakeScheduler scheduler;
  bool ran = false;
  scheduler.RunAt(scheduler.Now() + std::chrono::minutes(2), [&ran] { ran = true; });
  FakeConnection store(scheduler);
  store.Fail(Operation::kExtend, Away(), 1000);
  const auto hold = [&](absl::Duration lease) {
    Reservation::Grant grant;
    grant.request = std::make_shared<const v1::ReserveRequest>(SampleReserveRequest());
    const auto answer = std::make_shared<v1::ReserveResponse>();
    answer->mutable_reserved()->set_reservation_token(Uuid::Random().ToString());
    grant.answer = answer;
    grant.lease = lease;
    grant.lease_deadline = scheduler.Now() + absl::ToChronoNanoseconds(lease);
    auto reservation = Reservation::Make(std::make_shared<const StoreContext>(StoreContext{
                                             store, scheduler, std::make_shared<OutstandingWork>(),
                                             std::make_shared<OutstandingWork>()}),
                                         grant, absl::Seconds(5));
    reservation->Start();
    return reservation;
  };
  hold(absl::Seconds(30))->LetLapse();
  const auto lapsed = hold(absl::Seconds(30));
  scheduler.Advance(absl::Seconds(40));
  EXPECT_TRUE(lapsed->lost());
  lapsed->LetLapse();
  scheduler.Advance(absl::Minutes(2));
  EXPECT_TRUE(ran);
}

TEST_F(ReservationTest, ARefusalOfACheckpointEndsTheHeartbeats) {
  store_.TakeOver();
  Checkpoint("half");
  ASSERT_EQ(store_.calls(Operation::kExtend), 1);
  scheduler_.Advance(absl::Minutes(1));
  EXPECT_EQ(store_.calls(Operation::kExtend), 1);
}

TEST_F(ReservationTest, ARefusedHeartbeatIsFollowedByNoOther) {
  store_.TakeOver();
  scheduler_.Advance(absl::Seconds(10));
  ASSERT_TRUE(reservation_->refused());
  EXPECT_EQ(scheduler_.pending(), 1u) << "the end of the lease";
}

TEST_F(ReservationTest, AnAnsweredHeartbeatOfAReservationThatHasEndedIsTheLast) {
  store_.HoldAnswers(Operation::kExtend);
  scheduler_.Advance(absl::Seconds(10));
  Complete();
  EXPECT_TRUE(outcome_.ok()) << outcome_;
  store_.AnswerHeld(Operation::kExtend);
  EXPECT_TRUE(Ended());
}

// Another attempt holds the record then, but this attempt's end was known before.
TEST_F(ReservationTest, ARefusalAfterTheEndIsNotReported) {
  store_.Hold(Operation::kExtend);
  scheduler_.Advance(absl::Seconds(10));
  Complete();
  ASSERT_TRUE(outcome_.ok()) << outcome_;
  reservation_->OnLost([this](const Reservation& /*lost*/) { lost_ += 10; });
  store_.AnswerHeld(Operation::kExtend);
  EXPECT_FALSE(reservation_->refused());
  EXPECT_EQ(lost_, 0);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, ALeaseThatRunsOutWhileTheOutcomeIsRecordedIsNotReportedAsLost) {
  scheduler_.Advance(absl::Seconds(12));
  store_.Fail(Operation::kExtend, Away(), 1000);
  store_.Fail(Operation::kComplete, Away(), 1000);
  Complete();
  scheduler_.Advance(absl::Minutes(2));
  EXPECT_EQ(lost_, 0);
  store_.Recover();
  scheduler_.Advance(absl::Seconds(1));
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, ARefusedCompletionIsReportedAsALossAndNotAsAFault) {
  store_.TakeOver();
  Complete();
  EXPECT_EQ(ReasonOf(outcome_), Reason::kReservationLost);
  EXPECT_TRUE(reservation_->refused());
  EXPECT_EQ(lost_, 1);
  EXPECT_TRUE(lines_.empty()) << lines_.front();
}

// An expired record holds no reservation either.
TEST_F(ReservationTest, AMissingRecordIsALoss) {
  store_.Fail(Operation::kExtend, MakeError(Reason::kRecordNotFound, "no such record"), 1);
  scheduler_.Advance(absl::Seconds(10));
  EXPECT_EQ(lost_, 1);
  store_.Fail(Operation::kComplete, MakeError(Reason::kRecordNotFound, "no such record"), 1);
  Complete();
  EXPECT_EQ(ReasonOf(outcome_), Reason::kReservationLost);
  EXPECT_FALSE(DetailsOf(outcome_).retry_delay.has_value()) << "a retry would run it again";
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, ACheckpointWithoutARecordIsNotFollowedByARetry) {
  store_.LoseRecord();
  Checkpoint("half");
  Checkpoint("rest");
  ASSERT_EQ(stored_.size(), 2u);
  for (const absl::Status& stored : stored_) {
    EXPECT_EQ(ReasonOf(stored), Reason::kReservationLost);
    EXPECT_FALSE(DetailsOf(stored).retry_delay.has_value());
  }
}

TEST_F(ReservationTest, WhatABusyServicePutsOffIsRepeatedAsItIs) {
  store_.Fail(Operation::kExtend, MakeError(Reason::kOverloaded, "busy"), 2);
  Checkpoint("half");
  scheduler_.Advance(absl::Seconds(2));
  ASSERT_EQ(stored_.size(), 1u);
  EXPECT_TRUE(stored_[0].ok()) << stored_[0];
  store_.Fail(Operation::kComplete, MakeError(Reason::kOverloaded, "busy"), 2);
  Complete();
  scheduler_.Advance(absl::Seconds(2));
  EXPECT_TRUE(outcome_.ok()) << outcome_;
  EXPECT_TRUE(IsComplete(store_.record().reply));
}

TEST_F(ReservationTest, AReleaseThatABusyServicePutsOffIsRepeated) {
  store_.Fail(Operation::kRelease, MakeError(Reason::kOverloaded, "busy"), 2);
  Release();
  scheduler_.Advance(absl::Seconds(2));
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_TRUE(reservation_->release_answer().ok());
}

// Five tries fit into half of what the store leaves of a short lease.
TEST_F(ReservationTest, AFailedHeartbeatOfAShortLeaseIsRepeatedAtATenthOfIt) {
  StartWithLease(absl::Seconds(2));
  store_.Fail(Operation::kExtend, Away(), 1000);
  scheduler_.Advance(absl::Milliseconds(700));
  ASSERT_EQ(store_.calls(Operation::kExtend), 1);
  scheduler_.Advance(absl::Milliseconds(166));
  EXPECT_EQ(store_.calls(Operation::kExtend), 1);
  scheduler_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(store_.calls(Operation::kExtend), 2);
  Complete();
}

TEST_F(ReservationTest, AnOutcomeAfterMaxLeaseIsExtendedAtATenthOfAShortLease) {
  StartWithLease(absl::Seconds(2), /*max_lease=*/absl::Seconds(2));
  scheduler_.Advance(absl::Minutes(1));
  store_.Fail(Operation::kComplete, Away(), 1000);
  const int beats = store_.calls(Operation::kExtend);
  Complete();
  scheduler_.Advance(absl::Milliseconds(199));
  EXPECT_EQ(store_.calls(Operation::kExtend), beats);
  scheduler_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(store_.calls(Operation::kExtend), beats + 1);
  store_.Recover();
  scheduler_.Advance(absl::Seconds(1));
  EXPECT_TRUE(Ended());
}

// Twice a second at most: a recovering store gets requests from many guards.
TEST_F(ReservationTest, AnOutcomeAfterMaxLeaseIsExtendedHalfASecondLaterUnderALongLease) {
  Start(absl::Seconds(30));
  scheduler_.Advance(absl::Minutes(1));
  store_.Fail(Operation::kComplete, Away(), 1000);
  const int beats = store_.calls(Operation::kExtend);
  Complete();
  scheduler_.Advance(kLongestRepeat - absl::Milliseconds(1));
  EXPECT_EQ(store_.calls(Operation::kExtend), beats);
  scheduler_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(store_.calls(Operation::kExtend), beats + 1);
  store_.Recover();
  scheduler_.Advance(absl::Seconds(1));
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, LettingLapseEndsRepeatsOfWhatWasBegun) {
  store_.Fail(Operation::kComplete, Away(), 1000);
  Complete();
  reservation_->LetLapse();
  scheduler_.Advance(absl::Minutes(1));
  EXPECT_EQ(store_.calls(Operation::kComplete), 1);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, LettingLapseEndsRepeatsOfARelease) {
  store_.Fail(Operation::kRelease, Away(), 1000);
  Release();
  reservation_->LetLapse();
  scheduler_.Advance(absl::Minutes(1));
  EXPECT_EQ(store_.calls(Operation::kRelease), 1);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, AReleaseKeepsTheRecordBackForItsPause) {
  Release(v1::RELEASE_OUTCOME_NOTHING_HAPPENED, absl::Milliseconds(1'500));
  EXPECT_EQ(store_.record().release_pause, absl::Milliseconds(1'500));
}

TEST_F(ReservationTest, ARefusedReleaseIsReportedAndLogged) {
  store_.Fail(Operation::kRelease, InvalidField("reason", "not UTF-8"), 1000);
  Release();
  EXPECT_EQ(store_.calls(Operation::kRelease), 1);
  EXPECT_EQ(ReasonOf(reservation_->release_answer()), Reason::kRequestInvalid);
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_NE(lines_[0].find("could not be released"), std::string::npos) << lines_[0];
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, ARefusalOfAReleaseIsReportedWhateverItsCode) {
  store_.Fail(Operation::kRelease, MakeError(Reason::kRecordIdCollision, "another record"), 1000);
  Release();
  EXPECT_EQ(store_.calls(Operation::kRelease), 1);
  EXPECT_EQ(ReasonOf(reservation_->release_answer()), Reason::kRecordIdCollision);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, TheResultOfAReleaseIsReportedOnceItIsAnswered) {
  store_.Hold(Operation::kRelease);
  Release();
  EXPECT_EQ(ReasonOf(reservation_->release_answer()), Reason::kOutcomeNotRecorded);
  store_.AnswerHeld(Operation::kRelease);
  EXPECT_TRUE(reservation_->release_answer().ok());
}

TEST_F(ReservationTest, AReleaseThatFindsAnotherAttemptIsALossToTryAgainAfter) {
  store_.TakeOver();
  Release();
  EXPECT_EQ(ReasonOf(reservation_->release_answer()), Reason::kReservationLost);
  EXPECT_EQ(reservation_->release_answer().code(), absl::StatusCode::kAborted);
}

TEST_F(ReservationTest, AReleaseThatIsOnlyPutOffStaysOpen) {
  store_.Fail(Operation::kRelease, Replaced(absl::StatusCode::kResourceExhausted), 1000);
  Release();
  scheduler_.Advance(absl::Minutes(1));
  EXPECT_TRUE(Ended());
  EXPECT_EQ(ReasonOf(reservation_->release_answer()), Reason::kOutcomeNotRecorded);
}

TEST_F(ReservationTest, AReleaseThatIsNeverAnsweredStaysOpen) {
  store_.Fail(Operation::kRelease, Away(), 1000);
  Release();
  scheduler_.Advance(absl::Minutes(1));
  EXPECT_TRUE(Ended());
  EXPECT_EQ(ReasonOf(reservation_->release_answer()), Reason::kOutcomeNotRecorded);
}

TEST_F(ReservationTest, CheckpointsFollowOneAnother) {
  Checkpoint("first");
  Checkpoint("second");
  ASSERT_EQ(stored_.size(), 2u);
  EXPECT_TRUE(stored_[1].ok()) << stored_[1];
  EXPECT_EQ(store_.record().checkpoint, "second");
  EXPECT_EQ(scheduler_.pending(), 1u) << "the heartbeat: no timer stays behind";
}

TEST_F(ReservationTest, AnAbandonedCheckpointIsReplacedByTheNextAtOnce) {
  store_.Hold(Operation::kExtend);
  Checkpoint("first");
  scheduler_.Advance(absl::Seconds(3));
  Checkpoint("second");
  scheduler_.Advance(absl::Seconds(2));
  ASSERT_EQ(stored_.size(), 1u) << "the first";
  // Each try of the first, including those that were given up.
  store_.Fail(Operation::kExtend, Away(), store_.calls(Operation::kExtend));
  store_.AnswerHeld(Operation::kExtend);
  ASSERT_EQ(stored_.size(), 2u);
  EXPECT_TRUE(stored_[1].ok()) << stored_[1];
}

TEST_F(ReservationTest, AFailureAfterTheLastCheckpointWasAbandonedIsNotRepeated) {
  store_.Hold(Operation::kExtend);
  Checkpoint("only");
  scheduler_.Advance(absl::Seconds(5));
  ASSERT_EQ(stored_.size(), 1u);
  reservation_->LetLapse();
  store_.Fail(Operation::kExtend, Away(), 100);
  store_.AnswerHeld(Operation::kExtend);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationTest, ACheckpointThatCannotBeRepeatedAnyMoreIsReported) {
  store_.Hold(Operation::kExtend);
  Checkpoint("half");
  scheduler_.Stop();
  store_.Fail(Operation::kExtend, Away(), 1);
  store_.AnswerHeld(Operation::kExtend);
  ASSERT_EQ(stored_.size(), 1u);
  EXPECT_EQ(ReasonOf(stored_[0]), Reason::kStoreUnavailable);
}

TEST_F(ReservationTest, ACheckpointIsRefusedOnceItsReservationHasEnded) {
  store_.Fail(Operation::kExtend, Away(), 1);
  Checkpoint("half");
  reservation_->LetLapse();
  Checkpoint("whole");
  ASSERT_EQ(stored_.size(), 1u);
  EXPECT_EQ(ReasonOf(stored_[0]), Reason::kReservationLost);
  reservation_.reset();
  scheduler_.Advance(absl::Seconds(1));
  ASSERT_EQ(stored_.size(), 2u);
  EXPECT_EQ(ReasonOf(stored_[1]), Reason::kReservationLost);
  EXPECT_EQ(store_.calls(Operation::kExtend), 1);
}

// The store could not be reached for a while; it decides whether the lease still holds.
TEST_F(ReservationTest, ACheckpointWithinMaxLeaseFindsALeaseAgainThatRanOutUnheard) {
  store_.Fail(Operation::kExtend, Away(), 1000);
  scheduler_.Advance(absl::Seconds(31));
  ASSERT_TRUE(reservation_->lost());
  store_.Recover();
  Checkpoint("half");
  ASSERT_EQ(stored_.size(), 1u);
  EXPECT_TRUE(stored_[0].ok()) << stored_[0];
  EXPECT_FALSE(reservation_->lost());
  Complete();
}

TEST_F(ReservationTest, ACheckpointExtendsByTheWholeLeaseUntilMaxLeaseAndNotFromThenOn) {
  Start(absl::Seconds(30));
  scheduler_.Advance(absl::Milliseconds(29'999));
  Checkpoint("in time");
  EXPECT_EQ(FromWire(store_.last_extend().lease()), absl::Seconds(30));
  scheduler_.Advance(absl::Milliseconds(1));
  Checkpoint("late");
  EXPECT_EQ(FromWire(store_.last_extend().lease()), limits::kMinLease);
  scheduler_.Advance(absl::Milliseconds(29'998));
  Checkpoint("last");
  ASSERT_EQ(stored_.size(), 3u);
  EXPECT_TRUE(stored_[2].ok()) << stored_[2];
}

TEST_F(ReservationTest, ACheckpointAtTheVeryEndOfTheLeaseIsTooLate) {
  Start(absl::Seconds(30));
  scheduler_.Advance(absl::Seconds(50));
  const int calls = store_.calls(Operation::kExtend);
  Checkpoint("too late");
  ASSERT_EQ(stored_.size(), 1u);
  EXPECT_EQ(ReasonOf(stored_[0]), Reason::kReservationLost);
  EXPECT_EQ(store_.calls(Operation::kExtend), calls);
}

TEST_F(ReservationTest, AfterTheStopACallerIsAnsweredThoughItsRequestFails) {
  store_.Fail(Operation::kComplete, Away(), 100);
  store_.Fail(Operation::kRelease, Away(), 100);
  scheduler_.Stop();
  Complete();
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(ReasonOf(outcome_), Reason::kOutcomeNotRecorded);
  Start();
  Release();
  EXPECT_EQ(answers_, 2);
}

}  // namespace
}  // namespace idempotency::internal
