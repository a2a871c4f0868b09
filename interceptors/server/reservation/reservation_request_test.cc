#include "interceptors/server/reservation/reservation_request.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "client/not_connected.h"
#include "core/answer_kind.h"
#include "core/errors.h"
#include "interceptors/server/testing/fake_connection.h"
#include "interceptors/server/testing/fake_scheduler.h"
#include "interceptors/server/testing/sample_question.h"
#include "interceptors/server/wire/wire_time.h"

namespace idempotency {
namespace {

using Operation = FakeConnection::Operation;

absl::Status Away() { return MakeError(Reason::kStoreUnavailable, "away"); }

class ReservationRequestTest : public testing::Test {
 protected:
  std::shared_ptr<ReservationRequest> Ask(absl::Duration max_wait = absl::ZeroDuration(),
                                          bool recover = false) {
    v1::ReserveRequest request = SampleQuestion();
    request.set_recover(recover);
    *request.mutable_lease() = ToWire(absl::Seconds(30));
    auto asked = ReservationRequest::Make(
        {store_, scheduler_, requests_, recordings_, pursuits_}, request, max_wait,
        scheduler_.Now() + absl::ToChronoNanoseconds(max_wait + absl::Seconds(2)),
        [this](absl::StatusOr<ReservationAnswer> answer) {
          ++told_;
          answer_ = std::move(answer);
        });
    asked->Start();
    return asked;
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
  int told_ = 0;
  absl::StatusOr<ReservationAnswer> answer_;
};

TEST_F(ReservationRequestTest, PassesTheVerdictOn) {
  Ask();
  EXPECT_EQ(told_, 1);
  ASSERT_TRUE(answer_.ok());
  EXPECT_EQ(answer_->response.reserved().attempt(), 1u);
  EXPECT_EQ(answer_->sent, scheduler_.Now());
  EXPECT_TRUE(Ended());
}

// The lease runs while the answer is on the way.
TEST_F(ReservationRequestTest, TellsWhenTheVerdictWasAskedForNotWhenItCame) {
  const auto asked = scheduler_.Now();
  store_.Hold(Operation::kReserve);
  Ask();
  scheduler_.Advance(absl::Seconds(1));
  store_.AnswerHeld(Operation::kReserve);
  ASSERT_TRUE(answer_.ok());
  EXPECT_EQ(answer_->sent, asked);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationRequestTest, RepeatsWithTheSameTokenWhatWasLeftOpen) {
  // Granted, but the answer was lost: the repeat gets the same grant.
  store_.Fail(Operation::kReserve, Away(), 1, /*after=*/true);
  Ask();
  EXPECT_EQ(told_, 0);
  const std::string token = store_.last_reserve().request_token();
  scheduler_.Advance(absl::Seconds(1));
  ASSERT_TRUE(answer_.ok());
  EXPECT_EQ(store_.last_reserve().request_token(), token);
  EXPECT_EQ(store_.record().attempt, 1u);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationRequestTest, WhatWasNeverSentIsToldAtOnceAndNotPursued) {
  store_.Fail(Operation::kReserve, NotConnected(), 1);
  Ask(/*max_wait=*/absl::Seconds(5));
  EXPECT_EQ(told_, 1);
  EXPECT_EQ(ReasonOf(answer_.status()), Reason::kStoreUnavailable);
  EXPECT_TRUE(DetailsOf(answer_.status()).retry_delay.has_value());
  EXPECT_EQ(store_.calls(Operation::kReserve), 1);
  EXPECT_TRUE(Ended());
}

// It may be granted: only the service can tell.
TEST_F(ReservationRequestTest, WhatMayHaveBeenSentIsPursuedWhileThereIsNoConnection) {
  store_.Fail(Operation::kReserve, Away(), 1, /*after=*/true);
  store_.Fail(Operation::kReserve, NotConnected(), 3);
  Ask();
  scheduler_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(told_, 0);
  scheduler_.Advance(absl::Seconds(1));
  ASSERT_TRUE(answer_.ok()) << answer_.status();
  EXPECT_EQ(store_.record().attempt, 1u);
  EXPECT_TRUE(Ended());
}

// A store that stalls for longer than the lease: nothing may run under it.
TEST_F(ReservationRequestTest, RepeatsAGrantWhoseLeaseWasOverWhenItCame) {
  store_.Hold(Operation::kReserve);
  Ask(/*max_wait=*/absl::Minutes(1));
  scheduler_.Advance(absl::Seconds(30));
  store_.AnswerHeld(Operation::kReserve);
  EXPECT_EQ(told_, 0);
  scheduler_.Advance(absl::Seconds(1));
  ASSERT_TRUE(answer_.ok()) << answer_.status();
  EXPECT_EQ(store_.calls(Operation::kReserve), 2);
  // Another token would find the record in flight.
  ASSERT_TRUE(answer_->response.has_reserved());
  EXPECT_GT(answer_->sent +
                absl::ToChronoNanoseconds(FromWire(answer_->response.reserved().lease_remaining())),
            scheduler_.Now());
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationRequestTest, AsksEachTimeWithATokenOfItsOwn) {
  Ask();
  const std::string first = store_.last_reserve().request_token();
  Ask();
  EXPECT_NE(store_.last_reserve().request_token(), first);
  EXPECT_TRUE(answer_->response.has_in_flight());
}

TEST_F(ReservationRequestTest, WaitsNoLongerThanWhatIsLeft) {
  store_.Fail(Operation::kReserve, Away(), 1, /*after=*/true);
  Ask(absl::Seconds(1));
  EXPECT_EQ(FromWire(store_.last_reserve().max_wait()), absl::Seconds(1));
  scheduler_.Advance(absl::Seconds(1));
  EXPECT_LT(FromWire(store_.last_reserve().max_wait()), absl::Seconds(1));
}

TEST_F(ReservationRequestTest, TimeoutIsTellingAndAGrantThatComesLateIsReleased) {
  store_.Hold(Operation::kReserve);
  Ask();
  scheduler_.Advance(absl::Seconds(2));
  EXPECT_EQ(told_, 1);
  EXPECT_EQ(ReasonOf(answer_.status()), Reason::kStoreUnavailable);
  EXPECT_TRUE(DetailsOf(answer_.status()).retry_delay.has_value());
  EXPECT_FALSE(Ended());
  store_.AnswerHeld(Operation::kReserve);
  scheduler_.Advance(kTryTimeout);
  EXPECT_EQ(told_, 1);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationRequestTest, AGrantWhoseAnswerIsLateIsFoundAgainAndReleased) {
  store_.HoldAnswers(Operation::kReserve);
  Ask();
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RESERVED);
  scheduler_.Advance(absl::Seconds(2));
  EXPECT_EQ(told_, 1);
  store_.AnswerHeld(Operation::kReserve);
  scheduler_.Advance(kTryTimeout);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_EQ(store_.record().attempt, 1u);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationRequestTest, GrantThatRecoversAndComesLateStaysUnknown) {
  Ask();
  store_.LoseTrace();
  store_.Hold(Operation::kReserve);
  Ask(absl::ZeroDuration(), /*recover=*/true);
  scheduler_.Advance(absl::Seconds(2));
  EXPECT_EQ(ReasonOf(answer_.status()), Reason::kStoreUnavailable);
  store_.AnswerHeld(Operation::kReserve);
  scheduler_.Advance(absl::Seconds(40));
  EXPECT_EQ(store_.record().attempt, 2u);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_UNKNOWN);
}

TEST_F(ReservationRequestTest, QuestionGivenUpIsPursuedUntilItsGrantIsReleased) {
  store_.Fail(Operation::kReserve, Away(), 8, /*after=*/true);
  const auto asked = Ask(absl::Seconds(20));
  asked->GiveUp(Away());
  EXPECT_EQ(told_, 1);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RESERVED);
  scheduler_.Advance(absl::Seconds(30));
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_FALSE(store_.last_reserve().has_max_wait());
  EXPECT_EQ(told_, 1);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationRequestTest, PursuitEndsWhenNothingCanBeHeldAnyMore) {
  store_.Fail(Operation::kReserve, Away(), 10'000);
  Ask();
  scheduler_.Advance(absl::Seconds(33));
  EXPECT_EQ(told_, 1);
  EXPECT_TRUE(Ended());
}

// Each call of a long outage leaves a question behind.
TEST_F(ReservationRequestTest, OnlySoManyQuestionsArePursuedThatNobodyWaitsFor) {
  store_.Fail(Operation::kReserve, Away(), 100'000);
  for (int i = 0; i < 50; ++i) Ask();
  scheduler_.Advance(absl::Seconds(3));
  EXPECT_EQ(told_, 50);
  const int before = store_.calls(Operation::kReserve);
  scheduler_.Advance(absl::Seconds(10));
  const int repeats = store_.calls(Operation::kReserve) - before;
  EXPECT_GT(repeats, 0) << "the first two";
  EXPECT_LE(repeats, 2 * 10 * 4) << "each about three times a second";
  scheduler_.Advance(absl::Seconds(30));
  EXPECT_TRUE(Ended());
  // Their places are free again.
  Ask();
  scheduler_.Advance(absl::Seconds(5));
  EXPECT_FALSE(Ended());
}

TEST_F(ReservationRequestTest, ErrorsOfTheServiceArePassedOnWithoutARepeat) {
  store_.Fail(Operation::kReserve, MakeError(Reason::kQuotaExceeded, "too many"), 1);
  Ask();
  EXPECT_EQ(ReasonOf(answer_.status()), Reason::kQuotaExceeded);
  EXPECT_EQ(store_.calls(Operation::kReserve), 1);
  EXPECT_TRUE(Ended());
}

TEST_F(ReservationRequestTest, GuardsOwnFaultIsNotTheCallers) {
  store_.Fail(Operation::kReserve, absl::PermissionDeniedError("this guard may not"), 1);
  Ask();
  EXPECT_EQ(ReasonOf(answer_.status()), Reason::kStoreUnavailable);
  EXPECT_EQ(KindOfAnswer(answer_.status()), AnswerKind::kRefused) << "which never fails open";
  EXPECT_EQ(store_.calls(Operation::kReserve), 1);
}

TEST_F(ReservationRequestTest, AnInvalidRequestIsRefusedAndNotAskedForAgain) {
  store_.Fail(Operation::kReserve, InvalidField("labels", "not UTF-8"), 1);
  Ask();
  EXPECT_EQ(ReasonOf(answer_.status()), Reason::kRequestInvalid);
  EXPECT_EQ(store_.calls(Operation::kReserve), 1);
  EXPECT_TRUE(Ended());
}

}  // namespace
}  // namespace idempotency
