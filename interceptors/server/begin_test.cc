// ServerGuard::Begin without a server: over a fake store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "google/protobuf/any.pb.h"
#include "google/protobuf/dynamic_message.h"

#include "client/testing/fake_connection.h"
#include "core/mutex.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint_algorithm.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/server_guard/refusal.h"
#include "grpc_idempotency/server_guard/server_guard.h"
#include "interceptors/server/testing/fake_ledger.h"
#include "testdata/secrets.pb.h"
#include "testdata/till.pb.h"

namespace idempotency::internal {
namespace {

using testdata::ChargeReply;
using testdata::ChargeRequest;
using testing::ElementsAre;
using testing::HasSubstr;
using Operation = FakeConnection::Operation;
using Decision = BegunOperation::Decision;

ChargeRequest Request(std::int64_t amount_cents = 100) {
  ChargeRequest request;
  request.set_account("alice");
  request.set_amount_cents(amount_cents);
  return request;
}

ChargeReply Reply() {
  ChargeReply reply;
  reply.set_charge_id("ch_1");
  for (int i = 0; i < 20; ++i) (*reply.mutable_labels())[std::to_string(i)] = "label";
  return reply;
}

MethodPolicy Recovery() {
  MethodPolicy policy;
  policy.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  return policy;
}

class BeginTest : public testing::Test {
 protected:
  BeginTest() {
    options_.name_space = "tills";
    options_.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
    options_.replay_cache.capacity_bytes = 0;
    options_.verdict_timeout = absl::Seconds(5);
  }

  ServerGuard& Guard() {
    if (guard_ != nullptr) return *guard_;
    auto connection = std::make_unique<FakeConnection>();
    fake_ = connection.get();
    guard_ = ServerGuard::Create(std::move(connection), options_).value();
    return *guard_;
  }
  FakeConnection& Store() {
    Guard();
    return *fake_;
  }
  absl::StatusOr<BegunOperation> Begin(const ChargeRequest& request = Request()) {
    return Guard().Begin(call_, request);
  }

  BeginCall call_ = {"till.charge", "shop-1", "order-1"};
  GuardOptions options_;
  FakeConnection* fake_ = nullptr;
  std::unique_ptr<ServerGuard> guard_;
};

// A loop in one client must not fill the disk.
TEST_F(BeginTest, AFloodOfReusedKeysIsOneLineASecondInTheApplicationsLog) {
  Mutex mutex;
  std::vector<std::pair<LogSeverity, std::string>> lines;
  options_.log = [&](LogSeverity severity, std::string_view line) {
    MutexLock lock(mutex);
    lines.emplace_back(severity, line);
  };
  auto first = Begin();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(first->Complete(Reply()).ok());
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(ReasonOf(Begin(Request(7)).status()), Reason::kKeyReused);
  }
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begun);
  MutexLock lock(mutex);
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.front().first, LogSeverity::kWarning);
  EXPECT_THAT(lines.front().second,
              HasSubstr("till.charge: key reused with a different request, record "));
  EXPECT_LE(lines.size(), static_cast<std::size_t>(seconds.count()) + 1);
}

TEST_F(BeginTest, RunsOnceAndThenReplaysByteForByte) {
  call_.labels = {{"delivery", "7"}};
  auto first = Begin();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->decision(), Decision::kRun);
  ASSERT_NE(first->execution(), nullptr);
  EXPECT_EQ(first->execution()->attempt(), 1u);
  EXPECT_FALSE(first->execution()->lost());
  const v1::ReserveRequest sent = Store().last_reserve();
  EXPECT_EQ(sent.record_key().namespace_(), "tills");
  EXPECT_EQ(sent.record_key().scope(), "shop-1");
  EXPECT_EQ(sent.record_key().operation(), "till.charge");
  EXPECT_EQ(sent.record_key().key(), "order-1");
  EXPECT_EQ(sent.labels().at("delivery"), "7");

  EXPECT_TRUE(first->Complete(Reply()).ok());

  auto again = Begin();
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->decision(), Decision::kReplay);
  EXPECT_EQ(again->execution(), nullptr);
  EXPECT_EQ(again->record_id(), RecordIdFor(FromProto(sent.record_key())).ToString());
  EXPECT_EQ(again->reply().body(), Store().record().reply.body());
  ChargeReply reply;
  ASSERT_TRUE(again->ReadReply(reply).ok());
  EXPECT_EQ(reply.charge_id(), "ch_1");
  EXPECT_EQ(reply.labels_size(), 20);
}

TEST_F(BeginTest, OnlyOneOfTwoDeliveriesRuns) {
  auto first = Begin();
  ASSERT_TRUE(first.ok());
  const auto second = Begin();
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(ReasonOf(second.status()), Reason::kInFlight);
  EXPECT_TRUE(DetailsOf(second.status()).retry_delay.has_value());
  EXPECT_TRUE(first->Complete(Reply()).ok());
}

TEST_F(BeginTest, AnotherRequestUnderTheSameKeyIsRefused) {
  ASSERT_TRUE(Begin(Request(100))->Complete(Reply()).ok());
  EXPECT_EQ(ReasonOf(Begin(Request(101)).status()), Reason::kKeyReused);
}

TEST_F(BeginTest, ARecordedFailureIsReplayed) {
  auto begun = Begin();
  EXPECT_TRUE(begun->Complete(grpc::Status(grpc::StatusCode::NOT_FOUND, "no account", "why")).ok());
  auto again = Begin();
  ASSERT_TRUE(again.ok());
  ASSERT_EQ(again->decision(), Decision::kReplay);
  ChargeReply reply;
  const grpc::Status status = again->ReadReply(reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no account");
  EXPECT_EQ(status.error_details(), "why");
}

TEST_F(BeginTest, AFailureThatIsNotRecordedCannotComplete) {
  auto begun = Begin();
  EXPECT_EQ(begun->Complete(grpc::Status(grpc::StatusCode::UNAVAILABLE, "")).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(begun->Complete(grpc::Status::OK).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(begun->Fail(grpc::Status::OK).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Store().record().state, v1::RECORD_STATE_RESERVED);
  EXPECT_TRUE(begun->Complete(Reply()).ok()) << "it can still be settled";
}

TEST_F(BeginTest, AnErrorOfAnotherGuardCannotComplete) {
  auto begun = Begin();
  const grpc::Status passed_on = ToGrpcStatus(MakeError(Reason::kKeyReused, "of another guard"));
  EXPECT_EQ(begun->Complete(passed_on).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(begun->Fail(passed_on).ok());
  EXPECT_EQ(Store().record().state, v1::RECORD_STATE_RELEASED);
}

TEST_F(BeginTest, FailFollowsThePolicy) {
  EXPECT_TRUE(Begin()->Fail(grpc::Status(grpc::StatusCode::UNAVAILABLE, "bank away")).ok());
  EXPECT_EQ(Store().record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_EQ(Store().record().release_pause, absl::Seconds(1));

  auto second = Begin();
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->execution()->attempt(), 2u);
  EXPECT_TRUE(second->Fail(grpc::Status(grpc::StatusCode::NOT_FOUND, "no account")).ok());
  EXPECT_EQ(Store().record().state, v1::RECORD_STATE_COMPLETED);
}

TEST_F(BeginTest, AfterADeadlineTheLeaseRunsOut) {
  EXPECT_TRUE(Begin()->Fail(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "")).ok());
  EXPECT_EQ(Store().record().state, v1::RECORD_STATE_RESERVED);
  EXPECT_EQ(Store().calls(Operation::kRelease), 0);
}

TEST_F(BeginTest, UnderRecoveryAFailureThatIsNotRecordedIsUnknown) {
  call_.policy = Recovery();
  EXPECT_TRUE(Begin()->Fail(grpc::Status(grpc::StatusCode::UNAVAILABLE, "")).ok());
  EXPECT_EQ(ReasonOf(Begin().status()), Reason::kOutcomeUnknown);
}

TEST_F(BeginTest, ARecoveryHandlerDecidesBeforeItAnswers) {
  call_.policy = Recovery();
  call_.recovery = [](const RecoveryCase& recovery) {
    const auto* request = dynamic_cast<const ChargeRequest*>(recovery.request);
    if (request == nullptr || recovery.attempt != 2) return RecoveryDecision::LeaveUnknown();
    ChargeReply found;
    found.set_charge_id("found " + request->account());
    return RecoveryDecision::CompleteWith(found);
  };
  EXPECT_TRUE(Begin()->Fail(grpc::Status(grpc::StatusCode::UNAVAILABLE, "")).ok());
  auto recovered = Begin();
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  ASSERT_EQ(recovered->decision(), Decision::kReplay);
  ChargeReply reply;
  ASSERT_TRUE(recovered->ReadReply(reply).ok());
  EXPECT_EQ(reply.charge_id(), "found alice");
}

// As in a program that reads its messages by descriptor.
TEST_F(BeginTest, ATypedRecoveryHandlerGetsARequestWithoutItsGeneratedCode) {
  google::protobuf::DynamicMessageFactory factory;
  const std::unique_ptr<google::protobuf::Message> request(
      factory.GetPrototype(ChargeRequest::descriptor())->New());
  ASSERT_TRUE(request->ParseFromString(Request().SerializeAsString()));
  call_.policy = Recovery();
  call_.recovery = TypedRecovery<ChargeRequest, ChargeReply>(
      [](const RecoveryCase&, const ChargeRequest* charge) {
        ChargeReply found;
        found.set_charge_id(charge == nullptr ? "no request" : "found " + charge->account());
        return TypedRecoveryDecision<ChargeReply>::CompleteWith(found);
      });
  auto lost = Guard().Begin(call_, *request);
  ASSERT_TRUE(lost.ok()) << lost.status();
  EXPECT_TRUE(lost->Fail(grpc::Status(grpc::StatusCode::UNAVAILABLE, "")).ok());
  auto recovered = Guard().Begin(call_, *request);
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  ChargeReply reply;
  ASSERT_TRUE(recovered->ReadReply(reply).ok());
  EXPECT_EQ(reply.charge_id(), "found alice");
}

// The guard's copy of a dynamic message refers to its factory, which may end with the call.
TEST_F(BeginTest, NoCopyOfARequestOutlivesTheAnswer) {
  auto factory = std::make_unique<google::protobuf::DynamicMessageFactory>();
  std::unique_ptr<google::protobuf::Message> request(
      factory->GetPrototype(ChargeRequest::descriptor())->New());
  ASSERT_TRUE(request->ParseFromString(Request().SerializeAsString()));
  call_.policy = Recovery();
  call_.recovery = [](const RecoveryCase&) { return RecoveryDecision::LeaveUnknown(); };
  std::promise<void> answered;
  Guard().Begin(call_, *request, [&](const absl::StatusOr<BegunOperation>& begun) {
    EXPECT_TRUE(begun.ok()) << begun.status();
    request = nullptr;
    factory = nullptr;
    answered.set_value();
  });
  EXPECT_EQ(answered.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

// The background knows the type of the call's request as well.
TEST_F(BeginTest, NoTypedRecoveryHandlerOfAnotherRequestRunsInTheBackground) {
  options_.background_recovery = true;
  std::promise<void> faulty;
  std::atomic<bool> logged{false};
  options_.log = [&](LogSeverity, std::string_view line) {
    if (line.find("but the request is of type") == std::string_view::npos) return;
    if (!logged.exchange(true)) faulty.set_value();
  };
  call_.policy = Recovery();
  call_.recovery =
      TypedRecovery<ChargeReply, ChargeReply>([](const RecoveryCase&, const ChargeReply*) {
        ADD_FAILURE() << "it is made for another request";
        return TypedRecoveryDecision<ChargeReply>::Release();
      });
  EXPECT_TRUE(Begin()->Fail(grpc::Status(grpc::StatusCode::UNAVAILABLE, "")).ok());
  EXPECT_EQ(faulty.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  guard_ = nullptr;
}

TEST_F(BeginTest, ReleaseLetsTheNextAttemptRunUnderEveryPolicy) {
  call_.policy = Recovery();
  EXPECT_TRUE(Begin()->Release("the file was locked").ok());
  EXPECT_EQ(Store().record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_EQ(Store().record().release_reason, "the file was locked");
  auto second = Begin();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->execution()->attempt(), 2u);
  EXPECT_TRUE(second->Release(std::string(5000, 'x')).ok());
  EXPECT_EQ(Store().record().release_reason.size(), 1024u);
}

TEST_F(BeginTest, AReasonThatCannotBeKeptIsRefusedAndChangesNothing) {
  call_.policy = Recovery();
  auto begun = Begin();
  for (const char* reason : {"two\nlines", "\xff", "a\x01"}) {
    const absl::Status refused = begun->Release(reason);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << reason;
    EXPECT_EQ(ReasonOf(refused), Reason::kRequestInvalid);
    const auto violations = DetailsOf(refused).violations;
    ASSERT_EQ(violations.size(), 1u);
    EXPECT_EQ(violations[0].field, "release.reason");
  }
  EXPECT_EQ(Store().calls(Operation::kRelease), 0);
  EXPECT_TRUE(begun->Release("one line").ok()) << "it can still be settled";
  auto second = Begin();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->execution()->attempt(), 2u);
  EXPECT_TRUE(second->Complete(Reply()).ok());
}

TEST_F(BeginTest, AReleaseThatTheServiceRefusesIsNotOk) {
  auto begun = Begin();
  Store().Fail(Operation::kRelease, InvalidField("reason", "is not kept"), 1);
  EXPECT_EQ(ReasonOf(begun->Release("the file was locked")), Reason::kRequestInvalid);
  EXPECT_EQ(Store().record().state, v1::RECORD_STATE_RESERVED);

  call_.key = "order-2";
  auto failed = Begin();
  Store().Fail(Operation::kRelease, InvalidField("reason", "is not kept"), 1);
  EXPECT_EQ(ReasonOf(failed->Fail(grpc::Status(grpc::StatusCode::UNAVAILABLE, ""))),
            Reason::kRequestInvalid);
}

TEST_F(BeginTest, AReleaseIsRepeatedWhileTheGuardIsRefused) {
  auto begun = Begin();
  Store().Fail(Operation::kRelease, absl::PermissionDeniedError("not this namespace"), 1);
  Store().Fail(Operation::kRelease, MakeError(Reason::kAccessDenied, "not this namespace"), 1);
  EXPECT_TRUE(begun->Release("the file was locked").ok());
  EXPECT_EQ(Store().record().state, v1::RECORD_STATE_RELEASED);
}

TEST_F(BeginTest, AReleaseThatIsNotAcknowledgedIsNotOk) {
  options_.recording_timeout = absl::Milliseconds(50);
  auto begun = Begin();
  Store().Hold(Operation::kRelease);
  EXPECT_EQ(ReasonOf(begun->Release("the file was locked")), Reason::kOutcomeNotRecorded);
  Store().AnswerHeld(Operation::kRelease);
  EXPECT_TRUE(Store().WaitForState(v1::RECORD_STATE_RELEASED));
}

TEST_F(BeginTest, AReleaseOfALostReservationIsNotOk) {
  auto begun = Begin();
  Store().TakeOver();
  EXPECT_EQ(ReasonOf(begun->Release("the file was locked")), Reason::kReservationLost);
}

TEST_F(BeginTest, WhatIsForgottenIsLeftToItsLease) {
  { auto begun = Begin(); }
  EXPECT_EQ(Store().record().state, v1::RECORD_STATE_RESERVED);
  EXPECT_EQ(Store().calls(Operation::kRelease), 0);
  guard_.reset();  // does not wait for abandoned operations
}

TEST_F(BeginTest, WhatIsForgottenUnderRecoveryIsUnknown) {
  call_.policy = Recovery();
  { auto begun = Begin(); }
  EXPECT_TRUE(Store().WaitForState(v1::RECORD_STATE_UNKNOWN));
}

TEST_F(BeginTest, IsSettledOnce) {
  auto begun = Begin();
  EXPECT_TRUE(begun->Complete(Reply()).ok());
  EXPECT_EQ(begun->Complete(Reply()).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(begun->Fail(grpc::Status(grpc::StatusCode::INTERNAL, "")).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(begun->Release("again").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Store().calls(Operation::kComplete), 1);
  EXPECT_EQ(Store().calls(Operation::kRelease), 0);

  auto replay = Begin();
  EXPECT_EQ(replay->Complete(Reply()).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(replay->Release("no").code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(BeginTest, MovesWithoutBeingAbandoned) {
  auto begun = Begin();
  BegunOperation moved = *std::move(begun);
  call_.key = "order-2";
  auto other = Begin();
  ASSERT_TRUE(other.ok());
  std::vector<BegunOperation> kept;
  kept.push_back(std::move(moved));
  kept.push_back(*std::move(other));
  EXPECT_TRUE(kept[0].Complete(Reply()).ok());
  EXPECT_TRUE(kept[1].Complete(Reply()).ok());
}

TEST_F(BeginTest, ALostReservationIsReported) {
  auto begun = Begin();
  Store().TakeOver();
  const absl::Status status = begun->Complete(Reply());
  EXPECT_EQ(ReasonOf(status), Reason::kReservationLost);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(begun->execution()->lost());
}

// Its redelivery would run it again.
TEST_F(BeginTest, ARecordThatDoesNotExistAnyMoreIsReportedAsSuch) {
  auto begun = Begin();
  Store().LoseRecord();
  const absl::Status status = begun->Complete(Reply());
  EXPECT_EQ(ReasonOf(status), Reason::kReservationLost);
  EXPECT_THAT(std::string(status.message()), HasSubstr("would run it again"));
  EXPECT_EQ(DetailsOf(status).metadata["cause"], "RECORD_EXPIRED");
  EXPECT_TRUE(IsRecordGone(status));
  EXPECT_EQ(PushbackFor(status), kNoRetryPushback);
}

// The other attempt's result counts: this one's must not be sent.
TEST_F(BeginTest, ARecordThatAnotherAttemptHadBeforeItWentIsNotGone) {
  call_.policy.released = {grpc::StatusCode::RESOURCE_EXHAUSTED};
  const auto settled = [this](const std::function<absl::Status(BegunOperation&)>& settle) {
    auto begun = Begin();
    Store().TakeOver();
    EXPECT_EQ(ReasonOf(begun->execution()->Checkpoint("half")), Reason::kReservationLost);
    Store().LoseRecord();
    return settle(*begun);
  };
  const auto failed = [](grpc::StatusCode code) {
    return [code](BegunOperation& begun) { return begun.Fail(grpc::Status(code, "no")); };
  };
  for (const absl::Status& status : {
           settled([](BegunOperation& begun) { return begun.Complete(Reply()); }),
           settled([](BegunOperation& begun) { return begun.Release("nothing was done"); }),
           settled(failed(grpc::StatusCode::NOT_FOUND)),
           settled(failed(grpc::StatusCode::RESOURCE_EXHAUSTED)),
           settled(failed(grpc::StatusCode::UNAVAILABLE)),
       }) {
    EXPECT_EQ(ReasonOf(status), Reason::kReservationLost);
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_EQ(DetailsOf(status).metadata["cause"], "SUPERSEDED");
    EXPECT_FALSE(IsRecordGone(status));
    EXPECT_EQ(PushbackFor(status), kNoRetryPushback) << "a retry would run it again";
  }
}

TEST_F(BeginTest, AnUnacknowledgedCompletionIsRepeated) {
  options_.recording_timeout = absl::Milliseconds(50);
  auto begun = Begin();
  Store().Hold(Operation::kComplete);
  EXPECT_EQ(ReasonOf(begun->Complete(Reply())), Reason::kOutcomeNotRecorded);
  Store().AnswerHeld(Operation::kComplete);
  EXPECT_TRUE(Store().WaitForState(v1::RECORD_STATE_COMPLETED));
}

TEST_F(BeginTest, HeartbeatsRunUntilItIsSettled) {
  call_.policy.lease = absl::Milliseconds(300);
  auto begun = Begin();
  EXPECT_TRUE(Store().WaitForCalls(Operation::kExtend, 3));
  EXPECT_TRUE(begun->Complete(Reply()).ok());
}

TEST_F(BeginTest, TheAsynchronousFormsDoNotBlock) {
  Store().Hold(Operation::kReserve);
  std::promise<absl::StatusOr<BegunOperation>> begun;
  auto request = std::make_unique<ChargeRequest>(Request());
  Guard().Begin(call_, *request, [&begun](absl::StatusOr<BegunOperation> operation) {
    begun.set_value(std::move(operation));
  });
  request.reset();  // no longer needed
  auto verdict = begun.get_future();
  EXPECT_EQ(verdict.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  Store().AnswerHeld(Operation::kReserve);
  absl::StatusOr<BegunOperation> operation = verdict.get();
  ASSERT_TRUE(operation.ok()) << operation.status();

  Store().Hold(Operation::kComplete);
  std::promise<absl::Status> completed;
  operation->Complete(Reply(),
                      [&completed](const absl::Status& status) { completed.set_value(status); });
  auto answer = completed.get_future();
  EXPECT_EQ(answer.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  Store().AnswerHeld(Operation::kComplete);
  EXPECT_TRUE(answer.get().ok());
}

TEST_F(BeginTest, WhatACallbackThrowsEndsThere) {
  std::optional<BegunOperation> first;
  Store().Hold(Operation::kReserve);
  Guard().Begin(call_, Request(), [&first](absl::StatusOr<BegunOperation> begun) {
    first.emplace(*std::move(begun));
    throw std::runtime_error("of Begin");
  });
  EXPECT_NO_THROW(Store().AnswerHeld(Operation::kReserve));
  ASSERT_TRUE(first.has_value());
  int called = 0;
  const auto throwing = [&called](const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    ++called;
    throw std::runtime_error("of a callback");
  };
  EXPECT_NO_THROW(first->execution()->Checkpoint("half", throwing));
  EXPECT_NO_THROW(first->Complete(Reply(), throwing));
  call_.key = "order-2";
  auto second = Begin();
  EXPECT_NO_THROW(second->Release("not now", throwing));
  call_.key = "order-3";
  auto third = Begin();
  EXPECT_NO_THROW(third->Fail(grpc::Status(grpc::StatusCode::UNAVAILABLE, ""), throwing));
  EXPECT_EQ(called, 4);
}

// A guard that waits for a shorter time than its callers do.
TEST_F(BeginTest, AGuardDestroyedFirstCallsEveryCallback) {
  options_.recording_timeout = absl::Hours(1);
  options_.closing_timeout = absl::ZeroDuration();
  std::vector<absl::Status> outcomes;
  const auto note = [&outcomes](const absl::Status& status) { outcomes.push_back(status); };
  {
    auto completed = Begin();
    Store().Hold(Operation::kComplete);
    completed->Complete(Reply(), note);
    call_.key = "order-2";
    auto released = Begin();
    Store().Hold(Operation::kRelease);
    released->Release("not now", note);
  }
  EXPECT_TRUE(outcomes.empty());
  guard_.reset();
  ASSERT_EQ(outcomes.size(), 2u);
  for (const absl::Status& status : outcomes) {
    EXPECT_EQ(ReasonOf(status), Reason::kOutcomeNotRecorded) << status;
  }
}

TEST_F(BeginTest, ReadinessIsAnAnswerOfTheService) {
  EXPECT_TRUE(Guard().WaitUntilReady(absl::Seconds(30)).ok());
}

TEST_F(BeginTest, AnUnrepresentableDeadlineIsIgnored) {
  call_.deadline = DeadlineIn(absl::Hours(24 * 365 * 500));
  ASSERT_TRUE(Begin()->Complete(Reply()).ok());
}

TEST_F(BeginTest, TheCallersDeadlineBoundsTheWait) {
  Store().Hold(Operation::kReserve);
  call_.deadline = DeadlineIn(absl::Milliseconds(30));
  EXPECT_EQ(ReasonOf(Begin().status()), Reason::kStoreUnavailable);
  Store().AnswerHeld(Operation::kReserve);
}

TEST_F(BeginTest, AClosedGuardBeginsNothingAndStillRecords) {
  auto begun = Begin();
  Guard().Close();
  call_.key = "order-2";
  EXPECT_EQ(ReasonOf(Begin().status()), Reason::kStoreUnavailable);
  EXPECT_TRUE(begun->Complete(Reply()).ok());
}

// What begins inside the guard's destructor would use a destroyed guard.
TEST_F(BeginTest, ARecoveryThatEndsAfterTheCloseBeginsNothing) {
  call_.policy = Recovery();
  std::promise<void> entered;
  std::promise<void> opened;
  call_.recovery = [&](const RecoveryCase&) {
    entered.set_value();
    opened.get_future().wait();
    return RecoveryDecision::Release();
  };
  EXPECT_TRUE(Begin()->Fail(grpc::Status(grpc::StatusCode::UNAVAILABLE, "")).ok());
  std::promise<absl::Status> answered;
  Guard().Begin(call_, Request(), [&](const absl::StatusOr<BegunOperation>& begun) {
    answered.set_value(begun.status());
  });
  entered.get_future().wait();
  Guard().Close();
  opened.set_value();
  auto answer = answered.get_future();
  ASSERT_EQ(answer.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(ReasonOf(answer.get()), Reason::kStoreUnavailable);
  EXPECT_TRUE(Store().WaitForState(v1::RECORD_STATE_RELEASED));
}

TEST_F(BeginTest, CallsThatCannotWorkAreRefusedUnasked) {
  const auto refusal = [this](const std::function<void(BeginCall&)>& change) {
    BeginCall call = call_;
    change(call);
    return Guard().Begin(call, Request()).status();
  };
  EXPECT_EQ(ReasonOf(refusal([](BeginCall& call) { call.key = ""; })), Reason::kKeyMissing);
  EXPECT_EQ(ReasonOf(refusal([](BeginCall& call) { call.key = "a b"; })), Reason::kKeyInvalid);
  EXPECT_EQ(ReasonOf(refusal([](BeginCall& call) { call.scope = ""; })), Reason::kRequestInvalid);
  EXPECT_EQ(ReasonOf(refusal([](BeginCall& call) { call.operation = ""; })),
            Reason::kRequestInvalid);
  for (const char* text : {"two\nlines", "\xff"}) {
    const absl::Status key = refusal([&](BeginCall& call) { call.labels = {{text, "v"}}; });
    const absl::Status value = refusal([&](BeginCall& call) { call.labels = {{"k", text}}; });
    for (const absl::Status& status : {key, value}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(ReasonOf(status), Reason::kRequestInvalid);
      EXPECT_EQ(DetailsOf(status).violations.at(0).field, "begin.labels");
    }
  }
  // The operation of a guarded method, on every host and on its own host.
  for (const char* name : {"/tills.Till/Charge", "api.example.com/tills.Till/Charge"}) {
    EXPECT_EQ(ReasonOf(refusal([&](BeginCall& call) { call.operation = name; })),
              Reason::kRequestInvalid)
        << name;
  }
  EXPECT_EQ(Store().calls(Operation::kReserve), 0);
}

TEST_F(BeginTest, WhatAnUnknownOutcomeLeadsToMustBeChosen) {
  options_.on_unknown_outcome = std::nullopt;
  const absl::Status refused = Begin().status();
  EXPECT_EQ(ReasonOf(refused), Reason::kRequestInvalid);
  ASSERT_EQ(DetailsOf(refused).violations.size(), 1u);
  EXPECT_EQ(DetailsOf(refused).violations[0].field, "begin.policy");
  for (const char* way : {"TAKE_OVER", "completion ledger", "recovery handler"}) {
    EXPECT_THAT(DetailsOf(refused).violations[0].description, HasSubstr(way));
  }
  EXPECT_EQ(Store().calls(Operation::kReserve), 0);

  call_.policy.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
  EXPECT_TRUE(Begin().ok());
  EXPECT_EQ(Store().last_reserve().on_lease_expiry(), v1::LEASE_EXPIRY_TAKE_OVER);
  call_.policy.on_unknown_outcome = std::nullopt;
  call_.recovery = [](const RecoveryCase&) { return RecoveryDecision::LeaveUnknown(); };
  call_.key = "order-2";
  EXPECT_TRUE(Begin().ok());
  EXPECT_EQ(Store().last_reserve().on_lease_expiry(), v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
}

TEST_F(BeginTest, PoliciesThatCannotWorkAreRefusedUnasked) {
  const auto refusal = [this](const std::function<void(MethodPolicy&)>& change) {
    BeginCall call = call_;
    change(call.policy);
    const absl::Status status = Guard().Begin(call, Request()).status();
    EXPECT_EQ(ReasonOf(status), Reason::kRequestInvalid);
    const auto violations = DetailsOf(status).violations;
    return violations.empty() ? std::string() : violations[0].description;
  };
  EXPECT_THAT(refusal([](MethodPolicy& policy) { policy.lease = absl::Hours(2); }),
              HasSubstr("lease"));
  EXPECT_THAT(
      refusal([](MethodPolicy& policy) { policy.recorded.insert(grpc::StatusCode::UNKNOWN); }),
      HasSubstr("UNKNOWN"));
  EXPECT_THAT(refusal([](MethodPolicy& policy) { policy.key = MethodPolicy::Key::kOptional; }),
              HasSubstr("key must be REQUIRED"));
  EXPECT_THAT(refusal([](MethodPolicy& policy) { policy.key_field = "request_id"; }),
              HasSubstr("key_field"));
  EXPECT_THAT(refusal([](MethodPolicy& policy) { policy.fingerprint_metadata = {"x-tenant"}; }),
              HasSubstr("fingerprint_metadata"));
  EXPECT_THAT(refusal([](MethodPolicy& policy) { policy.stream = MethodPolicy::Stream::kPassOn; }),
              HasSubstr("stream"));
  EXPECT_THAT(refusal([](MethodPolicy& policy) { policy.reply = MethodPolicy::Reply::kReference; }),
              HasSubstr("REFERENCE"));
  EXPECT_THAT(refusal([](MethodPolicy& policy) { policy.fail_open = true; }),
              HasSubstr("fail_open"));
  EXPECT_THAT(refusal([](MethodPolicy& policy) { policy.cancel_when_lost = true; }),
              HasSubstr("cancel_when_lost"));
  EXPECT_EQ(Store().calls(Operation::kReserve), 0);
}

TEST_F(BeginTest, TheFingerprintIsThatOfTheOperationsName) {
  ASSERT_TRUE(Begin()->Complete(Reply()).ok());
  const ChargeRequest request = Request();
  EXPECT_EQ(Store().record().digest, FingerprintV1({"till.charge", request}).digest);
}

TEST_F(BeginTest, BytesAreComparedAsAnAnyOfTheirType) {
  const OpaqueRequest json{"application/json", R"({"amount": 1})"};
  ASSERT_TRUE(Guard().Begin(call_, json)->Complete(Reply()).ok());
  google::protobuf::Any any;
  any.set_type_url("application/json");
  any.set_value(R"({"amount": 1})");
  EXPECT_EQ(Store().record().digest, FingerprintV1({"till.charge", any}).digest);

  EXPECT_EQ(Guard().Begin(call_, json)->decision(), Decision::kReplay);
  EXPECT_EQ(Guard().Begin(call_, any)->decision(), Decision::kReplay);
  for (const OpaqueRequest& other : {OpaqueRequest{"application/json", R"({"amount":1})"},
                                     OpaqueRequest{"text/plain", R"({"amount": 1})"}}) {
    EXPECT_EQ(ReasonOf(Guard().Begin(call_, other).status()), Reason::kKeyReused);
  }
  EXPECT_EQ(ReasonOf(Guard().Begin(call_, OpaqueRequest{"\xff", "x"}).status()),
            Reason::kRequestInvalid);
}

TEST_F(BeginTest, WhatMustNotBeStoredIsLeftOut) {
  testdata::Card card;
  card.set_holder("alice");
  card.set_number("4111");
  ASSERT_TRUE(Begin()->Complete(card).ok());
  EXPECT_EQ(Store().record().reply.content(), v1::REPLY_CONTENT_REDACTED);
  testdata::Card stored;
  ASSERT_TRUE(Begin()->ReadReply(stored).ok());
  EXPECT_EQ(stored.holder(), "alice");
  EXPECT_EQ(stored.number(), "");
}

TEST_F(BeginTest, AReplyOfAnotherTypeThanDeclaredIsRefused) {
  call_.reply_type = ChargeReply::descriptor();
  auto begun = Begin();
  testdata::Card card;
  card.set_number("4111");
  EXPECT_EQ(begun->Complete(card).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Store().record().state, v1::RECORD_STATE_RESERVED);
  EXPECT_TRUE(begun->Complete(Reply()).ok()) << "it can still be settled";
  EXPECT_EQ(Store().record().reply.content(), v1::REPLY_CONTENT_UNSPECIFIED);
}

class BeginWithLedgerTest : public BeginTest {
 protected:
  BeginWithLedgerTest() { options_.ledger = ledger_; }

  // The effect and its reply, in one transaction.
  bool Commit(BegunOperation& begun) {
    FakeTransaction transaction{*ledger_, std::nullopt};
    return begun.execution()->RecordInTransaction(transaction, reply_).ok() && transaction.Commit();
  }

  const std::shared_ptr<FakeLedger> ledger_ = std::make_shared<FakeLedger>();
  const ChargeReply reply_ = Reply();
};

TEST_F(BeginWithLedgerTest, WhatIsCommittedIsCompleted) {
  auto begun = Begin();
  ASSERT_TRUE(Commit(*begun));
  EXPECT_TRUE(begun->Complete(reply_).ok());
  EXPECT_EQ(Begin()->decision(), Decision::kReplay);
}

TEST_F(BeginWithLedgerTest, WhatIsCommittedCannotBeReleased) {
  auto begun = Begin();
  ASSERT_TRUE(Commit(*begun));
  EXPECT_EQ(ReasonOf(begun->Release("nothing happened")), Reason::kReservationLost);
  EXPECT_EQ(Store().record().state, v1::RECORD_STATE_COMPLETED);
}

TEST_F(BeginWithLedgerTest, WhatIsCommittedAndForgottenIsCompleted) {
  {
    auto begun = Begin();
    ASSERT_TRUE(Commit(*begun));
  }
  EXPECT_TRUE(Store().WaitForState(v1::RECORD_STATE_COMPLETED));
  ChargeReply replayed;
  ASSERT_TRUE(Begin()->ReadReply(replayed).ok());
  EXPECT_EQ(replayed.charge_id(), "ch_1");
}

TEST_F(BeginTest, HooksHearOfItAsOfACall) {
  std::vector<std::string> events;
  options_.hooks.on_verdict = [&events](const VerdictEvent& event) {
    events.push_back(event.operation + (event.status.ok() ? " granted or replayed" : " refused"));
  };
  options_.hooks.on_recorded = [&events](const RecordedEvent& event) {
    events.push_back(event.disposition == Disposition::kComplete ? "completed" : "released");
  };
  ASSERT_TRUE(Begin()->Release("not now").ok());
  ASSERT_TRUE(Begin()->Complete(Reply()).ok());
  EXPECT_FALSE(Begin(Request(7)).ok());
  EXPECT_THAT(events,
              ElementsAre("till.charge granted or replayed", "released",
                          "till.charge granted or replayed", "completed", "till.charge refused"));
}

}  // namespace
}  // namespace idempotency::internal
