// The fake refuses the requests that the service refuses and keeps deadlines as a connection
// does, so that a test over it cannot pass with a request that the service would not accept, or
// with an answer that no caller waited for.
#include "client/testing/fake_connection.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "core/answer_kind.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/uuid.h"
#include "interceptors/server/testing/fake_scheduler.h"
#include "interceptors/server/testing/sample_reserve_request.h"

namespace idempotency::internal {
namespace {

constexpr Connection::Deadline kNoDeadline = Connection::Deadline::max();

class FakeConnectionTest : public testing::Test {
 protected:
  FakeConnectionTest() {
    reserve_request_.set_request_token(Uuid::Random().ToString());
    store_.Reserve(reserve_request_, kNoDeadline,
                   [this](absl::StatusOr<v1::ReserveResponse> answer) {
                     token_ = answer->reserved().reservation_token();
                   });
  }

  template <typename Request>
  Request Write() const {
    Request request;
    *request.mutable_record_key() = reserve_request_.record_key();
    request.set_reservation_token(token_);
    return request;
  }

  FakeConnection store_;
  v1::ReserveRequest reserve_request_ = SampleReserveRequest();
  std::string token_;
};

TEST_F(FakeConnectionTest, RefusesBadReservations) {
  const auto refusal = [this](const v1::ReserveRequest& reserve_request) {
    absl::Status refused;
    store_.Reserve(reserve_request, kNoDeadline,
                   [&refused](const auto& answer) { refused = answer.status(); });
    return ReasonOf(refused);
  };
  v1::ReserveRequest bad = SampleReserveRequest("order-2");
  (*bad.mutable_labels())["build"] = "two\nlines";
  EXPECT_EQ(refusal(bad), Reason::kRequestInvalid);
  bad = SampleReserveRequest("order-2");
  // Does not parse at the other end.
  (*bad.mutable_labels())["build"] = "\xff";
  EXPECT_EQ(refusal(bad), Reason::kRequestInvalid);
  bad = SampleReserveRequest("");
  EXPECT_EQ(refusal(bad), Reason::kKeyMissing);
  EXPECT_EQ(store_.record().attempt, 1u);
}

TEST_F(FakeConnectionTest, RefusesBadWrites) {
  absl::Status refused;
  const auto note = [&refused](const auto& answer) { refused = answer.status(); };
  auto release = Write<v1::ReleaseRequest>();
  release.set_reason("two\nlines");
  store_.Release(release, kNoDeadline, note);
  EXPECT_EQ(ReasonOf(refused), Reason::kRequestInvalid);
  auto extend = Write<v1::ExtendRequest>();
  extend.set_checkpoint(std::string(5000, 'c'));
  store_.Extend(extend, kNoDeadline, note);
  EXPECT_EQ(ReasonOf(refused), Reason::kRequestInvalid);
  auto complete = Write<v1::CompleteRequest>();
  complete.mutable_reply()->set_code(99);
  store_.Complete(complete, kNoDeadline, note);
  EXPECT_EQ(ReasonOf(refused), Reason::kRequestInvalid);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RESERVED);
  store_.Release(Write<v1::ReleaseRequest>(), kNoDeadline, note);
  EXPECT_TRUE(refused.ok()) << refused;
}

TEST_F(FakeConnectionTest, ARequestWithoutAFingerprintInCommonIsRefused) {
  reserve_request_.set_request_token(Uuid::Random().ToString());
  reserve_request_.mutable_fingerprints(0)->set_version(2);
  absl::Status refused;
  store_.Reserve(reserve_request_, kNoDeadline,
                 [&refused](const auto& answer) { refused = answer.status(); });
  EXPECT_EQ(ReasonOf(refused), Reason::kFingerprintUnknown);
}

TEST_F(FakeConnectionTest, AnotherReplyDoesNotReplaceTheOneThatIsStored) {
  absl::Status refused;
  const auto note = [&refused](const auto& answer) { refused = answer.status(); };
  auto complete = Write<v1::CompleteRequest>();
  complete.mutable_reply()->set_body("one");
  for (int time = 0; time < 2; ++time) {
    store_.Complete(complete, kNoDeadline, note);
    EXPECT_TRUE(refused.ok()) << refused;
  }
  complete.mutable_reply()->set_body("another");
  store_.Complete(complete, kNoDeadline, note);
  EXPECT_EQ(ReasonOf(refused), Reason::kReservationLost);
  EXPECT_EQ(store_.record().reply.body(), "one");
}

class FakeDeadlineTest : public testing::Test {
 protected:
  void Reserve() {
    v1::ReserveRequest reserve_request = SampleReserveRequest();
    reserve_request.set_request_token(Uuid::Random().ToString());
    store_.Reserve(reserve_request, scheduler_.Now() + std::chrono::seconds(2),
                   [this](const auto& answer) { answers_.push_back(answer.status()); });
  }
  // The answer to a caller whose store call ended too late.
  void ExpectNotInTime() {
    ASSERT_EQ(answers_.size(), 1u);
    EXPECT_EQ(ReasonOf(answers_[0]), Reason::kStoreUnavailable);
    EXPECT_EQ(KindOfAnswer(answers_[0]), AnswerKind::kNone);
  }

  FakeScheduler scheduler_;
  FakeConnection store_{scheduler_};
  std::vector<absl::Status> answers_;
};

TEST_F(FakeDeadlineTest, ALateStoreAppliesTheOperationAfterTheCallWasAnswered) {
  store_.Hold(FakeConnection::Operation::kReserve);
  Reserve();
  scheduler_.Advance(absl::Milliseconds(1'999));
  EXPECT_EQ(answers_.size(), 0u);
  scheduler_.Advance(absl::Milliseconds(1));
  ExpectNotInTime();
  EXPECT_EQ(store_.record().attempt, 0u);
  store_.AnswerHeld(FakeConnection::Operation::kReserve);
  EXPECT_EQ(answers_.size(), 1u);
  EXPECT_EQ(store_.record().attempt, 1u);
}

TEST_F(FakeDeadlineTest, ALateAnswerIsOfAnAppliedOperation) {
  store_.HoldAnswers(FakeConnection::Operation::kReserve);
  Reserve();
  EXPECT_EQ(store_.record().attempt, 1u);
  scheduler_.Advance(absl::Seconds(2));
  ExpectNotInTime();
  store_.AnswerHeld(FakeConnection::Operation::kReserve);
  EXPECT_EQ(answers_.size(), 1u);
}

TEST_F(FakeDeadlineTest, AnAnswerInTimeIsTheStoresAndTheOnlyOne) {
  store_.HoldAnswers(FakeConnection::Operation::kReserve);
  Reserve();
  scheduler_.Advance(absl::Seconds(1));
  store_.AnswerHeld(FakeConnection::Operation::kReserve);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(answers_[0].ok()) << answers_[0];
  EXPECT_EQ(scheduler_.pending(), 0u);
}

TEST_F(FakeDeadlineTest, WhatComesAfterItsDeadlineIsNotSent) {
  v1::ReserveRequest reserve_request = SampleReserveRequest();
  reserve_request.set_request_token(Uuid::Random().ToString());
  store_.Reserve(reserve_request, scheduler_.Now(),
                 [this](const auto& answer) { answers_.push_back(answer.status()); });
  ExpectNotInTime();
  EXPECT_EQ(store_.record().attempt, 0u);
}

}  // namespace
}  // namespace idempotency::internal
