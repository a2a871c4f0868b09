#include "interceptors/server/execution/settlement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/time/time.h"

#include "client/testing/fake_connection.h"
#include "client/testing/log_lines.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/reply.h"
#include "grpc_idempotency/server_guard/guard_options.h"
#include "interceptors/server/admission/admission.h"
#include "interceptors/server/reservation/reservation_client.h"
#include "interceptors/server/testing/admitted.h"
#include "interceptors/server/testing/sample_reserve_request.h"
#include "interceptors/server/threads/worker_pool.h"

namespace idempotency::internal {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

v1::Reply ReplyOf(grpc::StatusCode code, const std::string& text) {
  v1::Reply reply;
  reply.set_code(static_cast<int>(code));
  if (code == grpc::StatusCode::OK) {
    reply.set_body(text);
  } else {
    reply.set_message(text);
  }
  return reply;
}

class SettlementTest : public ::testing::Test {
 protected:
  SettlementTest() {
    options_.name_space = "tills";
    auto connection = std::make_unique<FakeConnection>();
    store_ = connection.get();
    reservations_ = std::make_unique<ReservationClient>(
        std::move(connection), options_.recording_timeout, absl::Seconds(10));
  }
  ~SettlementTest() override { pools_.Stop(); }

  GuardedOperation Operation() {
    GuardedOperation operation{"/tills.v1.Till/Charge", policy_, options_,
                               *reservations_,          pools_,  UnknownOutcome::kRunAgain};
    operation.log = guard_log_;
    return operation;
  }
  // The next attempt, under the present policy and options.
  std::shared_ptr<LiveExecution> Run() {
    std::promise<Admission::Decision> decided;
    Admission::Admit(std::make_shared<const GuardedOperation>(Operation()),
                     std::make_shared<v1::ReserveRequest>(SampleReserveRequest()),
                     reservations_->Now() + std::chrono::seconds(10),
                     [&](Admission::Decision decision) { decided.set_value(std::move(decision)); });
    return ExecutionOf(decided.get_future().get());
  }
  // The reason of the release after a handler's answer.
  std::string ReasonAfter(grpc::StatusCode code) {
    policy_.released = {code};
    SettleWith(Run(), ReplyOf(code, "no"));
    return store_->record().release_reason;
  }
  v1::Reply Kept() const { return store_->record().reply; }

  GuardOptions options_;
  MethodPolicy policy_;
  FakeConnection* store_ = nullptr;
  WorkerPools pools_;
  testing::LogLines log_;
  std::shared_ptr<GuardLog> guard_log_ = std::make_shared<GuardLog>(log_.Sink());
  std::unique_ptr<ReservationClient> reservations_;
};

TEST_F(SettlementTest, UnderReferenceWhatTheReplyRefersToIsKeptInItsPlace) {
  policy_.reply = MethodPolicy::Reply::kReference;
  const auto execution = Run();
  execution->SetReference("charge", "ch-1");
  EXPECT_TRUE(SettleWith(execution, ReplyOf(grpc::StatusCode::OK, "paid")).error.ok());
  EXPECT_EQ(Kept().content(), v1::REPLY_CONTENT_REFERENCE);
  v1::Reference reference;
  ASSERT_TRUE(reference.ParseFromString(Kept().body()));
  EXPECT_EQ(reference.type(), "charge");
  EXPECT_EQ(reference.id(), "ch-1");
}

TEST_F(SettlementTest, UnderReferenceAReplyThatRefersToNothingIsKeptByItsStatus) {
  policy_.reply = MethodPolicy::Reply::kReference;
  EXPECT_TRUE(SettleWith(Run(), ReplyOf(grpc::StatusCode::OK, "paid")).error.ok());
  EXPECT_EQ(Kept().content(), v1::REPLY_CONTENT_STATUS_ONLY);
  EXPECT_FALSE(Kept().has_body());
}

TEST_F(SettlementTest, UnderReferenceAnErrorIsKeptItself) {
  policy_.reply = MethodPolicy::Reply::kReference;
  const auto execution = Run();
  execution->SetReference("charge", "ch-1");
  EXPECT_TRUE(
      SettleWith(execution, ReplyOf(grpc::StatusCode::NOT_FOUND, "no such card")).error.ok());
  EXPECT_EQ(Kept().message(), "no such card");
  EXPECT_EQ(Kept().content(), v1::REPLY_CONTENT_UNSPECIFIED);
}

TEST_F(SettlementTest, AReplyOfTheLargestSizeIsKept) {
  const v1::Reply reply = ReplyOf(grpc::StatusCode::OK, "paid");
  options_.max_reply_bytes = ReplyBytes(reply);
  EXPECT_TRUE(SettleWith(Run(), reply).error.ok());
  EXPECT_EQ(Kept().body(), "paid");
}

TEST_F(SettlementTest, OfALargerReplyOnlyTheStatusIsKept) {
  const v1::Reply reply = ReplyOf(grpc::StatusCode::OK, "paid");
  options_.max_reply_bytes = ReplyBytes(reply) - 1;
  EXPECT_TRUE(SettleWith(Run(), reply).error.ok());
  EXPECT_EQ(Kept().content(), v1::REPLY_CONTENT_STATUS_ONLY);
  EXPECT_FALSE(Kept().has_body());
}

TEST_F(SettlementTest, WithoutARecordTheReplyIsSentUnlessAnotherAttemptHadTakenOver) {
  const auto alone = Run();
  store_->LoseRecord();
  Settlement::Outcome outcome = SettleWith(alone, ReplyOf(grpc::StatusCode::OK, "paid"));
  EXPECT_TRUE(outcome.error.ok()) << outcome.error;
  EXPECT_EQ(ReasonOf(outcome.unrecorded), Reason::kReservationLost);

  const auto superseded = Run();
  store_->TakeOver();
  EXPECT_EQ(ReasonOf(superseded->Checkpoint("half")), Reason::kReservationLost);
  store_->LoseRecord();
  outcome = SettleWith(superseded, ReplyOf(grpc::StatusCode::OK, "paid"));
  EXPECT_EQ(ReasonOf(outcome.error), Reason::kReservationLost);
  EXPECT_EQ(DetailsOf(outcome.error).metadata["cause"], "SUPERSEDED");
  EXPECT_FALSE(DetailsOf(outcome.error).retry_delay.has_value()) << "a retry would run it again";
}

// It did nothing, but the other attempt may have.
TEST_F(SettlementTest, WithoutARecordWhatDidNothingMayRunAgainUnlessAnotherAttemptHadTakenOver) {
  policy_.released = {grpc::StatusCode::RESOURCE_EXHAUSTED};
  const v1::Reply busy = ReplyOf(grpc::StatusCode::RESOURCE_EXHAUSTED, "busy");
  const auto alone = Run();
  store_->LoseRecord();
  EXPECT_TRUE(SettleWith(alone, busy).error.ok());

  const auto superseded = Run();
  store_->TakeOver();
  EXPECT_EQ(ReasonOf(superseded->Checkpoint("half")), Reason::kReservationLost);
  store_->LoseRecord();
  const Settlement::Outcome outcome = SettleWith(superseded, busy);
  EXPECT_EQ(ReasonOf(outcome.error), Reason::kReservationLost);
  EXPECT_EQ(DetailsOf(outcome.error).metadata["cause"], "SUPERSEDED");
  EXPECT_FALSE(DetailsOf(outcome.error).retry_delay.has_value()) << "a retry would run it again";
}

TEST_F(SettlementTest, AnErrorOfAnotherGuardIsNoOutcome) {
  v1::Reply passed_on = ReplyOf(grpc::StatusCode::RESOURCE_EXHAUSTED, "no");
  passed_on.set_details(
      ToGrpcStatus(MakeError(Reason::kQuotaExceeded, "of another guard")).error_details());
  SettleWith(Run(), passed_on);
  EXPECT_GT(store_->record().release_pause, absl::ZeroDuration()) << "its effects are unknown";
  EXPECT_EQ(log_.Count("a reason of this library"), 0u) << "as without it";
  policy_.recorded = {grpc::StatusCode::RESOURCE_EXHAUSTED};
  SettleWith(Run(), passed_on);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_GE(log_.Count("a reason of this library"), 1u);

  const auto without_effect = Run();
  ASSERT_NE(without_effect, nullptr);
  without_effect->MarkNoEffect();
  SettleWith(without_effect, passed_on);
  EXPECT_EQ(store_->record().release_pause, absl::ZeroDuration());
}

// A callee's IN_FLIGHT or OVERLOADED, for example: an earlier try of that call may have charged,
// and so may a call whose reply is over the channel's limit.
TEST_F(SettlementTest, AReleasedCodeThatIsPassedOnReportsNothing) {
  policy_.released = {grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::ABORTED};
  const auto pause_after = [this](const grpc::Status& status) {
    v1::Reply reply = ReplyOf(status.error_code(), status.error_message());
    reply.set_details(status.error_details());
    SettleWith(Run(), reply);
    EXPECT_EQ(store_->record().state, v1::RECORD_STATE_RELEASED);
    return store_->record().release_pause;
  };
  for (const Reason reason : {Reason::kOverloaded, Reason::kInFlight}) {
    EXPECT_GT(pause_after(ToGrpcStatus(MakeError(reason, "of another guard"))),
              absl::ZeroDuration());
  }
  EXPECT_GT(pause_after({grpc::StatusCode::RESOURCE_EXHAUSTED,
                         "Received message larger than max (5000000 vs. 4194304)"}),
            absl::ZeroDuration());
  EXPECT_EQ(pause_after({grpc::StatusCode::RESOURCE_EXHAUSTED, "no money left"}),
            absl::ZeroDuration());
}

// The reason may be one that only a newer version has; details may be anybody's.
TEST_F(SettlementTest, OnlyTheDomainOfTheCatalogueMakesAStatusNoOutcome) {
  std::string details =
      ToGrpcStatus(MakeError(Reason::kKeyReused, "of another guard")).error_details();
  const auto settled_with = [this](const std::string& of_status) {
    v1::Reply failure = ReplyOf(grpc::StatusCode::FAILED_PRECONDITION, "no");
    failure.set_details(of_status);
    SettleWith(Run(), failure);
    return store_->record().state;
  };
  details.replace(details.find("KEY_REUSED"), 10, "KEY_RETIRE");
  EXPECT_EQ(settled_with(details), v1::RECORD_STATE_RELEASED);
  const std::string domain = "grpc-idempotency.dev";
  details.replace(details.find(domain), domain.size(), "grpc-idempotency.org");
  EXPECT_EQ(settled_with(details), v1::RECORD_STATE_COMPLETED);
}

// gRPC returns UNKNOWN for a handler that threw in the sync API, UNIMPLEMENTED in the other.
TEST_F(SettlementTest, AReleaseNamesTheCodeAndWhetherTheHandlerMayHaveThrown) {
  EXPECT_THAT(ReasonAfter(grpc::StatusCode::UNAVAILABLE),
              AllOf(EndsWith("UNAVAILABLE"), Not(HasSubstr("threw"))));
  EXPECT_THAT(ReasonAfter(grpc::StatusCode::UNKNOWN), EndsWith("UNKNOWN, or threw"));
  EXPECT_THAT(ReasonAfter(grpc::StatusCode::UNIMPLEMENTED), EndsWith("UNIMPLEMENTED, or threw"));
}

}  // namespace
}  // namespace idempotency::internal
