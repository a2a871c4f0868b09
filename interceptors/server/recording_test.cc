#include "interceptors/server/recording.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "core/errors.h"
#include "core/reply.h"
#include "interceptors/server/testing/fake_connection.h"
#include "interceptors/server/testing/fake_scheduler.h"
#include "interceptors/server/wire_time.h"

namespace idempotency {
namespace {

using Operation = FakeConnection::Operation;

absl::Status Away() { return MakeError(Reason::kStoreUnavailable, "away"); }

class RecordingTest : public testing::Test {
 protected:
  RecordingTest() {
    v1::ReserveRequest request;
    request.mutable_record_key()->set_key("order-1");
    request.add_fingerprints()->set_digest("digest");
    request.set_request_token("r");
    *request.mutable_lease() = ToWire(absl::Seconds(30));
    Recording::Grant grant;
    grant.record_key = request.record_key();
    grant.lease = absl::Seconds(30);
    grant.lease_deadline = scheduler_.Now() + std::chrono::seconds(30);
    store_.Reserve(request, {}, [&grant](absl::StatusOr<v1::ReserveResponse> answer) {
      grant.reservation_token = answer->reserved().reservation_token();
    });
    recording_ =
        Recording::Make({store_, scheduler_, requests_, recordings_}, grant, absl::Seconds(5));
    recording_->Start();
  }

  void Complete(std::string body = "body") {
    v1::Reply reply;
    reply.set_body(std::move(body));
    recording_->Complete(reply, [this](absl::StatusOr<v1::CompleteResponse> outcome) {
      ++told_;
      outcome_ = outcome.status();
    });
  }
  void Release(v1::ReleaseOutcome outcome = v1::RELEASE_OUTCOME_NOTHING_HAPPENED) {
    recording_->Release("reason", outcome, [this] { ++told_; });
  }
  // Everything that was owed is done and nothing is left to happen.
  bool Ended() {
    return recordings_->WaitUntilIdle(std::chrono::steady_clock::now()) &&
           scheduler_.pending() == 0;
  }

  FakeScheduler scheduler_;
  FakeConnection store_;
  std::shared_ptr<OutstandingWork> requests_ = std::make_shared<OutstandingWork>();
  std::shared_ptr<OutstandingWork> recordings_ = std::make_shared<OutstandingWork>();
  std::shared_ptr<Recording> recording_;
  int told_ = 0;
  absl::Status outcome_;
};

TEST_F(RecordingTest, ExtendsAtAThirdOfTheLease) {
  scheduler_.Advance(absl::Milliseconds(9'999));
  EXPECT_EQ(store_.calls(Operation::kExtend), 0);
  scheduler_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(store_.calls(Operation::kExtend), 1);
  scheduler_.Advance(absl::Seconds(100));
  EXPECT_EQ(store_.calls(Operation::kExtend), 11);
  EXPECT_FALSE(recording_->lost());
  Complete();
}

TEST_F(RecordingTest, CompletesOnceAndEnds) {
  Complete();
  EXPECT_EQ(told_, 1);
  EXPECT_TRUE(outcome_.ok());
  EXPECT_EQ(store_.record().reply.body(), "body");
  EXPECT_TRUE(Ended());
}

TEST_F(RecordingTest, IsLostWhenTheStoreRefusesTheToken) {
  store_.TakeOver();
  EXPECT_FALSE(recording_->lost());
  scheduler_.Advance(absl::Seconds(10));
  EXPECT_TRUE(recording_->lost());
  scheduler_.Advance(absl::Seconds(60));
  EXPECT_EQ(store_.calls(Operation::kExtend), 1);
  Complete();
  EXPECT_EQ(ReasonOf(outcome_), Reason::kReservationLost);
  EXPECT_EQ(outcome_.code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Ended());
}

TEST_F(RecordingTest, IsLostWhenTheLeaseRunsOutUnheardAndFoundAgain) {
  // From 10 s on, twice a second: until after the lease.
  store_.Fail(Operation::kExtend, Away(), 45);
  scheduler_.Advance(absl::Milliseconds(29'999));
  EXPECT_FALSE(recording_->lost());
  scheduler_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(recording_->lost());
  // The store answers again, and nobody took over.
  scheduler_.Advance(absl::Seconds(10));
  EXPECT_FALSE(recording_->lost());
  Complete();
}

TEST_F(RecordingTest, RepeatsCompleteUntilAcknowledged) {
  store_.Fail(Operation::kComplete, Away(), 5);
  Complete();
  EXPECT_EQ(told_, 0);
  scheduler_.Advance(absl::Seconds(4));
  EXPECT_EQ(told_, 1);
  EXPECT_TRUE(outcome_.ok());
  EXPECT_EQ(store_.calls(Operation::kComplete), 6);
  EXPECT_TRUE(Ended());
}

TEST_F(RecordingTest, TellsTheCallerInTimeAndGoesOnExtendingAndCompleting) {
  store_.Fail(Operation::kComplete, Away(), 400);
  Complete();
  scheduler_.Advance(absl::Seconds(5));
  EXPECT_EQ(told_, 1);
  EXPECT_EQ(ReasonOf(outcome_), Reason::kOutcomeNotRecorded);
  scheduler_.Advance(absl::Seconds(300));
  EXPECT_EQ(told_, 1);
  EXPECT_GE(store_.calls(Operation::kExtend), 10);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_COMPLETED);
  EXPECT_TRUE(Ended());
}

TEST_F(RecordingTest, GoesOnUntilTheReservationIsLost) {
  store_.Fail(Operation::kComplete, Away(), 10);
  Complete();
  scheduler_.Advance(absl::Seconds(6));
  store_.TakeOver();
  scheduler_.Advance(absl::Seconds(60));
  EXPECT_EQ(told_, 1);
  EXPECT_TRUE(Ended());
}

TEST_F(RecordingTest, RefusedContentIsDropped) {
  store_.Fail(Operation::kComplete, absl::ResourceExhaustedError("too large a message"), 1);
  Complete();
  scheduler_.Advance(absl::Seconds(1));
  EXPECT_TRUE(outcome_.ok());
  EXPECT_EQ(told_, 1);
  EXPECT_FALSE(IsComplete(store_.record().reply));
}

TEST_F(RecordingTest, AcknowledgementThatComesLateIsNotToldTwice) {
  store_.Hold(Operation::kComplete);
  Complete();
  scheduler_.Advance(absl::Seconds(5));
  EXPECT_EQ(ReasonOf(outcome_), Reason::kOutcomeNotRecorded);
  store_.AnswerHeld(Operation::kComplete);
  EXPECT_EQ(told_, 1);
  EXPECT_TRUE(Ended());
}

TEST_F(RecordingTest, ReleasesAndStopsExtending) {
  Release();
  EXPECT_EQ(told_, 1);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_EQ(store_.record().release_reason, "reason");
  EXPECT_TRUE(Ended());
}

TEST_F(RecordingTest, ReleasesAsUnknown) {
  Release(v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_UNKNOWN);
}

TEST_F(RecordingTest, RepeatsReleaseButNotPastTheLease) {
  store_.Fail(Operation::kRelease, Away(), 1000);
  Release();
  scheduler_.Advance(absl::Seconds(5));
  EXPECT_EQ(told_, 1);
  EXPECT_FALSE(Ended());
  scheduler_.Advance(absl::Seconds(25));
  EXPECT_TRUE(Ended());
  EXPECT_EQ(store_.calls(Operation::kExtend), 0);
  EXPECT_GT(store_.calls(Operation::kRelease), 5);
}

TEST_F(RecordingTest, LetLapseOnlyStopsTheHeartbeats) {
  recording_->LetLapse();
  scheduler_.Advance(absl::Seconds(60));
  EXPECT_EQ(store_.calls(Operation::kExtend), 0);
  EXPECT_EQ(store_.calls(Operation::kRelease), 0);
  EXPECT_TRUE(Ended());
}

}  // namespace
}  // namespace idempotency
