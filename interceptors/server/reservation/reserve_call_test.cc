#include "interceptors/server/reservation/reserve_call.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/connection/not_connected.h"
#include "client/testing/fake_connection.h"
#include "core/answer_kind.h"
#include "core/wire_time.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/uuid.h"
#include "interceptors/server/log/guard_log.h"
#include "interceptors/server/testing/fake_scheduler.h"
#include "interceptors/server/testing/sample_reserve_request.h"

namespace idempotency::internal {
namespace {

using Operation = FakeConnection::Operation;

absl::Status Away() { return MakeError(Reason::kStoreUnavailable, "away"); }

class ReserveCallTest : public testing::Test {
 protected:
  std::shared_ptr<ReserveCall> Reserve(absl::Duration max_wait = absl::ZeroDuration(),
                                       bool recover = false) {
    v1::ReserveRequest request = SampleReserveRequest();
    request.set_recover(recover);
    request.set_request_token(request_token_);
    *request.mutable_lease() = ToWire(lease_);
    request.set_on_lease_expiry(on_lease_expiry_);
    auto call = ReserveCall::Make(
        std::make_shared<const StoreContext>(
            StoreContext{store_, scheduler_, requests_, recordings_, pursuits_, log_}),
        std::make_shared<const v1::ReserveRequest>(request), max_wait,
        scheduler_.Now() + absl::ToChronoNanoseconds(max_wait + absl::Seconds(2)),
        [this](absl::StatusOr<ReserveAnswer> answer) {
          ++answers_;
          answer_ = std::move(answer);
        },
        AbandonedGrant{unguarded_, nullptr});
    call->Start();
    return call;
  }
  std::shared_ptr<GuardLog> NewLog() {
    return std::make_shared<GuardLog>(
        [this](LogSeverity, std::string_view line) { lines_.emplace_back(line); });
  }
  bool Ended() {
    const auto now = std::chrono::steady_clock::now();
    return requests_->WaitUntilIdle(now) && recordings_->WaitUntilIdle(now) &&
           scheduler_.pending() == 0;
  }

  FakeScheduler scheduler_;
  FakeConnection store_{scheduler_};
  std::shared_ptr<OutstandingWork> requests_ = std::make_shared<OutstandingWork>();
  std::shared_ptr<OutstandingWork> recordings_ = std::make_shared<OutstandingWork>();
  Places pursuits_{2};
  std::vector<std::string> lines_;
  std::shared_ptr<GuardLog> log_ = NewLog();
  absl::Duration lease_ = absl::Seconds(30);
  v1::LeaseExpiry on_lease_expiry_ = v1::LEASE_EXPIRY_UNSPECIFIED;
  std::shared_ptr<UnguardedRun> unguarded_;
  std::string request_token_;
  int answers_ = 0;
  absl::StatusOr<ReserveAnswer> answer_;
};

TEST_F(ReserveCallTest, PassesTheVerdictOn) {
  Reserve();
  EXPECT_EQ(answers_, 1);
  ASSERT_TRUE(answer_.ok());
  EXPECT_EQ(answer_->response->reserved().attempt(), 1u);
  EXPECT_EQ(answer_->sent, scheduler_.Now());
  EXPECT_FALSE(store_.last_reserve().has_max_wait());
  EXPECT_TRUE(lines_.empty());
  EXPECT_TRUE(Ended());
}

// The lease runs while the answer is being sent.
TEST_F(ReserveCallTest, ReportsTheTimeOfTheRequestNotOfTheVerdict) {
  const auto sent_at = scheduler_.Now();
  store_.Hold(Operation::kReserve);
  Reserve();
  scheduler_.Advance(absl::Seconds(1));
  store_.AnswerHeld(Operation::kReserve);
  ASSERT_TRUE(answer_.ok());
  EXPECT_EQ(answer_->sent, sent_at);
  EXPECT_TRUE(Ended());
}

TEST_F(ReserveCallTest, RepeatsWithTheSameTokenWhatWasLeftOpen) {
  // Granted, but the answer was lost: the repeat gets the same grant.
  store_.Fail(Operation::kReserve, Away(), 1, /*after=*/true);
  Reserve();
  EXPECT_EQ(answers_, 0);
  const std::string token = store_.last_reserve().request_token();
  scheduler_.Advance(absl::Seconds(1));
  ASSERT_TRUE(answer_.ok());
  EXPECT_EQ(store_.last_reserve().request_token(), token);
  EXPECT_EQ(store_.record().attempt, 1u);
  EXPECT_TRUE(Ended());
}

TEST_F(ReserveCallTest, AnUnsentRequestIsReportedAtOnceAndNotPursued) {
  store_.Fail(Operation::kReserve, NotConnected(), 1);
  Reserve(/*max_wait=*/absl::Seconds(5));
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(ReasonOf(answer_.status()), Reason::kStoreUnavailable);
  EXPECT_TRUE(DetailsOf(answer_.status()).retry_delay.has_value());
  EXPECT_EQ(store_.calls(Operation::kReserve), 1);
  EXPECT_TRUE(lines_.empty()) << "an outage is no refusal: " << lines_.front();
  EXPECT_TRUE(Ended());
}

// It may be granted: only the service has the answer.
TEST_F(ReserveCallTest, WhatMayHaveBeenSentIsPursuedWhileThereIsNoConnection) {
  store_.Fail(Operation::kReserve, Away(), 1, /*after=*/true);
  store_.Fail(Operation::kReserve, NotConnected(), 3);
  Reserve();
  scheduler_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(answers_, 0);
  scheduler_.Advance(absl::Seconds(1));
  ASSERT_TRUE(answer_.ok()) << answer_.status();
  EXPECT_EQ(store_.record().attempt, 1u);
  EXPECT_TRUE(Ended());
}

// A store that stalls for longer than the lease: nothing may run under it.
TEST_F(ReserveCallTest, RepeatsAGrantWhoseLeaseWasOverWhenItCame) {
  store_.Hold(Operation::kReserve);
  Reserve(/*max_wait=*/absl::Minutes(1));
  scheduler_.Advance(absl::Seconds(30));
  store_.AnswerHeld(Operation::kReserve);
  EXPECT_EQ(answers_, 0);
  scheduler_.Advance(absl::Seconds(1));
  ASSERT_TRUE(answer_.ok()) << answer_.status();
  EXPECT_EQ(store_.calls(Operation::kReserve), 2);
  // Another token would find the record in flight.
  ASSERT_TRUE(answer_->response->has_reserved());
  EXPECT_GT(answer_->sent + absl::ToChronoNanoseconds(
                                FromWire(answer_->response->reserved().lease_remaining())),
            scheduler_.Now());
  EXPECT_TRUE(Ended());
}

// A grant is a verdict: fail_open must not treat it as none.
TEST_F(ReserveCallTest, AGrantThatCameTooLateIsAVerdict) {
  store_.Hold(Operation::kReserve);
  Reserve(/*max_wait=*/absl::Minutes(1));
  scheduler_.Advance(absl::Seconds(30));
  store_.AnswerHeld(Operation::kReserve);
  store_.Hold(Operation::kReserve);
  scheduler_.Advance(absl::Seconds(32));
  EXPECT_EQ(ReasonOf(answer_.status()), Reason::kStoreUnavailable);
  EXPECT_EQ(KindOfAnswer(answer_.status()), AnswerKind::kBusy);
  EXPECT_TRUE(DetailsOf(answer_.status()).retry_delay.has_value());
  store_.AnswerHeld(Operation::kReserve);
}

TEST_F(ReserveCallTest, EachCallHasItsOwnToken) {
  Reserve();
  const std::string first = store_.last_reserve().request_token();
  Reserve();
  EXPECT_NE(store_.last_reserve().request_token(), first);
  EXPECT_TRUE(answer_->response->has_in_flight());
}

TEST_F(ReserveCallTest, WaitsNoLongerThanWhatIsLeft) {
  store_.Fail(Operation::kReserve, Away(), 1, /*after=*/true);
  Reserve(absl::Seconds(1));
  EXPECT_EQ(FromWire(store_.last_reserve().max_wait()), absl::Seconds(1));
  scheduler_.Advance(absl::Seconds(1));
  EXPECT_LT(FromWire(store_.last_reserve().max_wait()), absl::Seconds(1));
  EXPECT_GT(FromWire(store_.last_reserve().max_wait()), absl::Milliseconds(900));
}

TEST_F(ReserveCallTest, TimeoutIsReportedAndALateGrantIsReleased) {
  store_.Hold(Operation::kReserve);
  Reserve();
  scheduler_.Advance(absl::Seconds(2));
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(ReasonOf(answer_.status()), Reason::kStoreUnavailable);
  EXPECT_TRUE(DetailsOf(answer_.status()).retry_delay.has_value());
  EXPECT_FALSE(Ended());
  store_.AnswerHeld(Operation::kReserve);
  scheduler_.Advance(kTryTimeout);
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_TRUE(Ended());
}

TEST_F(ReserveCallTest, AGrantWhoseAnswerIsLateIsFoundAgainAndReleased) {
  store_.HoldAnswers(Operation::kReserve);
  Reserve();
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RESERVED);
  scheduler_.Advance(absl::Seconds(2));
  EXPECT_EQ(answers_, 1);
  store_.AnswerHeld(Operation::kReserve);
  scheduler_.Advance(kTryTimeout);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_EQ(store_.record().attempt, 1u);
  EXPECT_TRUE(Ended());
}

// The handler of the call runs meanwhile, without a reservation.
class UnguardedReserveCallTest : public ReserveCallTest {
 protected:
  UnguardedReserveCallTest() { unguarded_ = std::make_shared<UnguardedRun>(); }
  void ReserveWithALateAnswer() {
    store_.HoldAnswers(Operation::kReserve);
    Reserve();
    scheduler_.Advance(absl::Seconds(2));
    EXPECT_EQ(ReasonOf(answer_.status()), Reason::kStoreUnavailable);
  }
  void ExpectLeftToItsLease() {
    store_.AnswerHeld(Operation::kReserve);
    scheduler_.Advance(kTryTimeout);
    EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RESERVED);
    EXPECT_EQ(store_.calls(Operation::kRelease), 0);
    EXPECT_TRUE(Ended());
  }
};

// It may still run: neither another attempt nor recovery may begin.
TEST_F(UnguardedReserveCallTest, ItsGrantIsLeftToItsLease) {
  ReserveWithALateAnswer();
  ExpectLeftToItsLease();
}

TEST_F(UnguardedReserveCallTest, ItsGrantIsLeftToItsLeaseWhereASecondRunIsAcceptable) {
  on_lease_expiry_ = v1::LEASE_EXPIRY_TAKE_OVER;
  ReserveWithALateAnswer();
  ExpectLeftToItsLease();
}

TEST_F(UnguardedReserveCallTest, OnceTheRunIsRuledOutNothingHappened) {
  ReserveWithALateAnswer();
  unguarded_->RuleOut();
  store_.AnswerHeld(Operation::kReserve);
  scheduler_.Advance(kTryTimeout);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_TRUE(Ended());
}

TEST_F(ReserveCallTest, GrantThatRecoversAndComesLateStaysUnknown) {
  Reserve();
  store_.LoseTrace();
  store_.Hold(Operation::kReserve);
  Reserve(absl::ZeroDuration(), /*recover=*/true);
  scheduler_.Advance(absl::Seconds(2));
  EXPECT_EQ(ReasonOf(answer_.status()), Reason::kStoreUnavailable);
  store_.AnswerHeld(Operation::kReserve);
  scheduler_.Advance(absl::Seconds(40));
  EXPECT_EQ(store_.record().attempt, 2u);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_UNKNOWN);
}

TEST_F(ReserveCallTest, AbandonedRequestIsPursuedUntilItsGrantIsReleased) {
  store_.Fail(Operation::kReserve, Away(), 8, /*after=*/true);
  const auto call = Reserve(absl::Seconds(20));
  call->Abandon(Away());
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RESERVED);
  scheduler_.Advance(absl::Seconds(30));
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_FALSE(store_.last_reserve().has_max_wait());
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(Ended());
}

TEST_F(ReserveCallTest, PursuitEndsWhenNothingCanBeHeldAnyMore) {
  store_.Fail(Operation::kReserve, Away(), 10'000);
  Reserve();
  scheduler_.Advance(absl::Seconds(33));
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(Ended());
}

// Each call during a long outage leaves a request behind.
TEST_F(ReserveCallTest, TheNumberOfPursuedAbandonedRequestsIsBounded) {
  store_.Fail(Operation::kReserve, Away(), 100'000);
  for (int i = 0; i < 50; ++i) Reserve();
  scheduler_.Advance(absl::Seconds(3));
  EXPECT_EQ(answers_, 50);
  const int before = store_.calls(Operation::kReserve);
  scheduler_.Advance(absl::Seconds(10));
  const int repeats = store_.calls(Operation::kReserve) - before;
  EXPECT_GT(repeats, 0) << "the first two";
  EXPECT_LE(repeats, 2 * 10 * 4) << "each about three times a second";
  scheduler_.Advance(absl::Seconds(30));
  EXPECT_TRUE(Ended());
  // Their places are free again.
  Reserve();
  scheduler_.Advance(absl::Seconds(5));
  EXPECT_FALSE(Ended());
}

TEST_F(ReserveCallTest, ErrorsOfTheServiceArePassedOnWithoutARepeat) {
  store_.Fail(Operation::kReserve, MakeError(Reason::kQuotaExceeded, "too many"), 1);
  Reserve();
  EXPECT_EQ(ReasonOf(answer_.status()), Reason::kQuotaExceeded);
  EXPECT_TRUE(lines_.empty()) << "the caller's matter: " << lines_.front();
  EXPECT_EQ(store_.calls(Operation::kReserve), 1);
  EXPECT_TRUE(Ended());
}

TEST_F(ReserveCallTest, GuardsOwnFaultIsNotTheCallers) {
  store_.Fail(Operation::kReserve, absl::PermissionDeniedError("this guard may not"), 1);
  Reserve();
  EXPECT_EQ(ReasonOf(answer_.status()), Reason::kStoreUnavailable);
  EXPECT_EQ(KindOfAnswer(answer_.status()), AnswerKind::kRefused) << "which never fails open";
  EXPECT_EQ(DetailsOf(answer_.status()).retry_delay, absl::Seconds(1));
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_NE(lines_[0].find("this guard may not"), std::string::npos) << lines_[0];
  EXPECT_EQ(store_.calls(Operation::kReserve), 1);
}

TEST_F(ReserveCallTest, ARefusalOfTheGuardIsNotTheCallers) {
  for (const Reason reason : {Reason::kAccessDenied, Reason::kCredentialsInvalid}) {
    // Its reason decides, not its code.
    for (const absl::StatusCode code : {CodeOf(reason), absl::StatusCode::kUnavailable}) {
      lines_.clear();
      const int before = store_.calls(Operation::kReserve);
      store_.Fail(Operation::kReserve, MakeErrorWithCode(reason, code, "no rule permits this"), 1);
      Reserve();
      EXPECT_EQ(ReasonOf(answer_.status()), Reason::kStoreUnavailable) << ReasonName(reason);
      EXPECT_EQ(DetailsOf(answer_.status()).metadata[std::string(kStatusCodeDetail)],
                std::to_string(static_cast<int>(CodeOf(reason))));
      EXPECT_EQ(KindOfAnswer(answer_.status()), AnswerKind::kRefused) << "which never fails open";
      EXPECT_EQ(DetailsOf(answer_.status()).retry_delay, absl::Seconds(1));
      EXPECT_EQ(answer_.status().message().find("no rule permits this"), std::string::npos);
      ASSERT_EQ(lines_.size(), 1u);
      EXPECT_NE(lines_[0].find("no rule permits this"), std::string::npos) << lines_[0];
      EXPECT_EQ(store_.calls(Operation::kReserve), before + 1);
      EXPECT_TRUE(Ended());
      // One line a second.
      log_ = NewLog();
    }
  }
}

// Its namespace's bounds were tightened: an operator can correct it while the guard runs.
TEST_F(ReserveCallTest, ARefusalOfThePolicysTermsIsNotTheCallers) {
  for (const char* const term : {"retention", "lease", "reply_retention", "tombstone"}) {
    lines_.clear();
    log_ = NewLog();
    store_.Fail(Operation::kReserve, InvalidField(term, "must be 1s to 1h in this namespace"), 1);
    Reserve();
    EXPECT_EQ(answer_.status().code(), absl::StatusCode::kUnavailable) << answer_.status();
    EXPECT_EQ(ReasonOf(answer_.status()), Reason::kStoreUnavailable);
    EXPECT_EQ(KindOfAnswer(answer_.status()), AnswerKind::kRefused) << "which never fails open";
    EXPECT_EQ(DetailsOf(answer_.status()).retry_delay, absl::Seconds(1));
    EXPECT_TRUE(DetailsOf(answer_.status()).violations.empty());
    ASSERT_EQ(lines_.size(), 1u);
    EXPECT_NE(lines_[0].find("must be 1s to 1h"), std::string::npos) << lines_[0];
    EXPECT_TRUE(Ended());
  }
}

TEST_F(ReserveCallTest, ARefusalOfTheCallersOwnFieldsIsPassedOn) {
  ErrorDetails details;
  details.violations = {{"retention", "is too long"}, {"labels", "are too many"}};
  for (const absl::Status& refusal :
       {InvalidField("record_key.key", "is empty"), MakeError(Reason::kRequestInvalid, "no bytes"),
        MakeError(Reason::kRequestInvalid, "two faults", details)}) {
    store_.Fail(Operation::kReserve, refusal, 1);
    Reserve();
    EXPECT_EQ(ReasonOf(answer_.status()), Reason::kRequestInvalid) << answer_.status();
  }
}

// The refusal of a repeat answers that repeat alone: an earlier try may have been granted.
class RefusedRepeatTest : public ReserveCallTest, public testing::WithParamInterface<Reason> {
 protected:
  void RefuseRepeats(int times) {
    store_.Fail(Operation::kReserve, MakeError(GetParam(), "not now"), times);
  }
  // The reason that the caller of a refused repeat gets.
  static Reason CallersReason() {
    return GetParam() == Reason::kOverloaded || GetParam() == Reason::kQuotaExceeded
               ? GetParam()
               : Reason::kStoreUnavailable;
  }
};

INSTANTIATE_TEST_SUITE_P(EachReason, RefusedRepeatTest,
                         testing::Values(Reason::kOverloaded, Reason::kQuotaExceeded,
                                         Reason::kAccessDenied, Reason::kCredentialsInvalid),
                         [](const auto& tested) { return std::string(ReasonName(tested.param)); });

// The store stalls for longer than the caller waits, and grants the first try when it works again.
TEST_P(RefusedRepeatTest, APursuitGoesOnUntilTheGrantOfAnEarlierTryIsReleased) {
  store_.HoldAnswers(Operation::kReserve);
  Reserve();
  scheduler_.Advance(absl::Seconds(2));
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(ReasonOf(answer_.status()), Reason::kStoreUnavailable);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RESERVED);
  RefuseRepeats(5);
  store_.AnswerHeld(Operation::kReserve);
  scheduler_.Advance(absl::Seconds(5));
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_EQ(store_.record().attempt, 1u);
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(Ended());
}

TEST_P(RefusedRepeatTest, AWaitingCallerGetsItAndTheRequestIsPursued) {
  store_.Fail(Operation::kReserve, Away(), 1, /*after=*/true);
  RefuseRepeats(3);
  Reserve(/*max_wait=*/absl::Seconds(20));
  scheduler_.Advance(absl::Milliseconds(20));
  ASSERT_EQ(answers_, 1);
  EXPECT_EQ(ReasonOf(answer_.status()), CallersReason());
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RESERVED);
  EXPECT_FALSE(Ended());
  scheduler_.Advance(absl::Seconds(2));
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_FALSE(store_.last_reserve().has_max_wait()) << "no caller waits";
  EXPECT_TRUE(Ended());
}

// Under REQUIRE_RECOVERY it would become unknown.
TEST_P(RefusedRepeatTest, AGrantThatCameTooLateIsReleased) {
  store_.Hold(Operation::kReserve);
  Reserve(/*max_wait=*/absl::Minutes(1));
  scheduler_.Advance(absl::Seconds(30));
  store_.AnswerHeld(Operation::kReserve);
  RefuseRepeats(3);
  scheduler_.Advance(absl::Milliseconds(20));
  ASSERT_EQ(answers_, 1);
  EXPECT_EQ(ReasonOf(answer_.status()), CallersReason());
  scheduler_.Advance(absl::Seconds(2));
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_TRUE(Ended());
}

TEST_P(RefusedRepeatTest, APursuitEndsWhenNothingCanBeHeldAnyMore) {
  store_.Fail(Operation::kReserve, Away(), 1, /*after=*/true);
  RefuseRepeats(100'000);
  Reserve();
  scheduler_.Advance(absl::Seconds(31));
  const int tries = store_.calls(Operation::kReserve);
  EXPECT_GE(tries, 60);
  EXPECT_LE(tries, 150) << "with the pauses of repeats";
  EXPECT_FALSE(Ended());
  scheduler_.Advance(absl::Seconds(1));
  EXPECT_TRUE(Ended());
  EXPECT_NE(pursuits_.TryTake(), nullptr);
}

TEST_P(RefusedRepeatTest, ItIsNotPursuedWithoutAPlace) {
  const auto one = pursuits_.TryTake();
  const auto other = pursuits_.TryTake();
  store_.Fail(Operation::kReserve, Away(), 1, /*after=*/true);
  RefuseRepeats(100'000);
  Reserve();
  scheduler_.Advance(absl::Milliseconds(20));
  EXPECT_EQ(ReasonOf(answer_.status()), CallersReason());
  EXPECT_EQ(store_.calls(Operation::kReserve), 2);
  EXPECT_TRUE(Ended());
}

// A final answer: no try can hold the record.
TEST_F(ReserveCallTest, AFinalRefusalOfARepeatEndsThePursuit) {
  for (const Reason reason :
       {Reason::kReservationLost, Reason::kRequestInvalid, Reason::kRecordIdCollision}) {
    const int before = store_.calls(Operation::kReserve);
    store_.Fail(Operation::kReserve, Away(), 1);
    store_.Fail(Operation::kReserve, MakeError(reason, "no"), 1);
    Reserve();
    scheduler_.Advance(absl::Milliseconds(20));
    EXPECT_EQ(ReasonOf(answer_.status()), reason);
    EXPECT_EQ(store_.calls(Operation::kReserve), before + 2);
    EXPECT_TRUE(Ended()) << ReasonName(reason);
  }
}

TEST_F(ReserveCallTest, AnInvalidRequestIsRefusedAndNotRepeated) {
  store_.Fail(Operation::kReserve, InvalidField("labels", "not UTF-8"), 1);
  Reserve();
  EXPECT_EQ(ReasonOf(answer_.status()), Reason::kRequestInvalid);
  EXPECT_EQ(lines_.size(), 1u) << "the guard made it";
  EXPECT_EQ(store_.calls(Operation::kReserve), 1);
  EXPECT_TRUE(Ended());
}

// As passed on by another guard in between, for which the store refuses it.
TEST_F(ReserveCallTest, ARefusalPassedOnKeepsItsKindAndItsHintAndNoDetailOfTheRequest) {
  ErrorDetails details;
  details.retry_delay = absl::Seconds(7);
  details.metadata[std::string(kStatusCodeDetail)] = "7";
  details.violations.push_back({"record_key.namespace", "is another's"});
  store_.Fail(Operation::kReserve,
              MakeError(Reason::kStoreUnavailable, "it may not", std::move(details)), 1);
  Reserve();
  EXPECT_EQ(ReasonOf(answer_.status()), Reason::kStoreUnavailable);
  EXPECT_EQ(KindOfAnswer(answer_.status()), AnswerKind::kRefused);
  EXPECT_EQ(DetailsOf(answer_.status()).retry_delay, absl::Seconds(7));
  EXPECT_TRUE(DetailsOf(answer_.status()).violations.empty());
  EXPECT_EQ(answer_.status().message().find("it may not"), std::string::npos);
  EXPECT_EQ(lines_.size(), 1u);
}

TEST_F(ReserveCallTest, NoVerdictInTimeStandsForNoStatusOfTheService) {
  store_.Hold(Operation::kReserve);
  Reserve();
  scheduler_.Advance(absl::Seconds(2));
  ASSERT_EQ(answers_, 1);
  EXPECT_EQ(DetailsOf(answer_.status()).metadata.count(std::string(kStatusCodeDetail)), 0u);
  EXPECT_EQ(DetailsOf(answer_.status()).retry_delay, absl::Seconds(1));
}

TEST_F(ReserveCallTest, ATokenThatComesWithTheQuestionIsKept) {
  request_token_ = Uuid::Random().ToString();
  Reserve();
  EXPECT_EQ(store_.last_reserve().request_token(), request_token_);
}

// A waiting caller has time: one try may take all of it.
TEST_F(ReserveCallTest, ARepeatWaitsAsLongAsTheCallerDoes) {
  store_.Fail(Operation::kReserve, Away(), 1);
  store_.Hold(Operation::kReserve);
  Reserve(/*max_wait=*/absl::Seconds(20));
  store_.AnswerHeld(Operation::kReserve);
  store_.Hold(Operation::kReserve);
  scheduler_.Advance(absl::Seconds(15));
  EXPECT_EQ(store_.calls(Operation::kReserve), 2);
  store_.AnswerHeld(Operation::kReserve);
  EXPECT_TRUE(answer_.ok()) << answer_.status();
  EXPECT_GT(FromWire(store_.last_reserve().max_wait()), absl::Seconds(19));
}

// A grant may be held for this long: only then it ends by itself.
TEST_F(ReserveCallTest, APursuitLastsAsLongAsALongLease) {
  lease_ = absl::Minutes(2);
  store_.Fail(Operation::kReserve, Away(), 100'000, /*after=*/true);
  Reserve();
  scheduler_.Advance(absl::Seconds(110));
  EXPECT_FALSE(Ended());
  store_.Recover();
  scheduler_.Advance(absl::Seconds(1));
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_TRUE(Ended());
}

TEST_F(ReserveCallTest, APursuitLastsHalfAMinuteUnderAShortLease) {
  lease_ = absl::Seconds(2);
  store_.Fail(Operation::kReserve, Away(), 100'000, /*after=*/true);
  Reserve();
  scheduler_.Advance(absl::Seconds(30));
  EXPECT_FALSE(Ended());
  scheduler_.Advance(absl::Seconds(3));
  EXPECT_TRUE(Ended());
}

// The caller may keep its reference to the request.
TEST_F(ReserveCallTest, AQuestionThatIsPursuedNoLongerIsNoWorkThoughItIsHeld) {
  store_.Fail(Operation::kReserve, Away(), 100'000);
  std::vector<std::shared_ptr<ReserveCall>> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(Reserve());
  scheduler_.Advance(absl::Seconds(3));
  EXPECT_FALSE(Ended()) << "two are pursued, and take every place";
  EXPECT_EQ(pursuits_.TryTake(), nullptr);
  scheduler_.Advance(absl::Seconds(30));
  EXPECT_TRUE(Ended());
}

TEST_F(ReserveCallTest, AQuestionThatWasAnsweredGivesItsPlaceBackThoughItIsHeld) {
  store_.Fail(Operation::kReserve, Away(), 100'000);
  const auto first = Reserve();
  const auto second = Reserve();
  scheduler_.Advance(absl::Seconds(20));
  EXPECT_EQ(pursuits_.TryTake(), nullptr);
  EXPECT_EQ(answers_, 2);
  EXPECT_FALSE(Ended()) << "each still has the place that it took first";
  store_.Recover();
  scheduler_.Advance(absl::Seconds(3));
  EXPECT_TRUE(Ended());
  EXPECT_NE(pursuits_.TryTake(), nullptr);
}

TEST_F(ReserveCallTest, ARequestWithAWaitingCallerTakesNoPlace) {
  store_.Fail(Operation::kReserve, Away(), 100'000);
  for (int i = 0; i < 5; ++i) Reserve(/*max_wait=*/absl::Seconds(60));
  scheduler_.Advance(absl::Seconds(10));
  const auto one = pursuits_.TryTake();
  const auto other = pursuits_.TryTake();
  EXPECT_NE(one, nullptr);
  EXPECT_NE(other, nullptr);
  store_.Recover();
  scheduler_.Advance(absl::Seconds(1));
  EXPECT_EQ(answers_, 5);
}

TEST_F(ReserveCallTest, ALateGrantWithoutACallerIsReleasedThoughItsLeaseIsOver) {
  store_.Hold(Operation::kReserve);
  Reserve()->Abandon(Away());
  v1::ReserveResponse over;
  over.mutable_reserved()->set_reservation_token(Uuid::Random().ToString());
  *over.mutable_reserved()->mutable_lease_remaining() = ToWire(absl::ZeroDuration());
  store_.SetVerdict(over);
  store_.AnswerHeld(Operation::kReserve);
  EXPECT_EQ(store_.calls(Operation::kReserve), 1);
  EXPECT_EQ(store_.calls(Operation::kRelease), 1);
}

TEST_F(ReserveCallTest, ReleasingALateGrantIsRepeatedWithinItsLease) {
  store_.Hold(Operation::kReserve);
  Reserve()->Abandon(Away());
  store_.Fail(Operation::kRelease, Away(), 3);
  store_.AnswerHeld(Operation::kReserve);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RESERVED);
  scheduler_.Advance(absl::Seconds(2));
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_TRUE(Ended());
}

TEST_F(ReserveCallTest, AVerdictThatIsNoGrantLeavesNothingToRelease) {
  Reserve();
  store_.Hold(Operation::kReserve);
  Reserve()->Abandon(Away());
  store_.AnswerHeld(Operation::kReserve);
  EXPECT_EQ(store_.calls(Operation::kRelease), 0);
  EXPECT_TRUE(Ended());
}

}  // namespace
}  // namespace idempotency::internal
