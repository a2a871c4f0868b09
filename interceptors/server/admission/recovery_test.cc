// Recovery from a grant to the caller's answer, by a call and in the background, over a fake
// store.
#include "interceptors/server/admission/recovery.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "client/testing/fake_connection.h"
#include "client/testing/log_lines.h"
#include "core/mutex.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "interceptors/server/admission/admission.h"
#include "interceptors/server/admission/background_recovery.h"
#include "interceptors/server/execution/settlement.h"
#include "interceptors/server/log/guard_log.h"
#include "interceptors/server/testing/fake_scheduler.h"
#include "interceptors/server/testing/sample_reserve_request.h"

namespace idempotency::internal {
namespace {

using Operation = FakeConnection::Operation;

constexpr std::chrono::seconds kSoon{20};

// A message to reply with.
v1::RecordKey Receipt() {
  v1::RecordKey receipt;
  receipt.set_key("receipt");
  return receipt;
}

class RecoveryTest : public ::testing::Test {
 protected:
  RecoveryTest() {
    auto connection = std::make_unique<FakeConnection>();
    store_ = connection.get();
    reservations_ = std::make_unique<ReservationClient>(std::move(connection), absl::Seconds(20),
                                                        absl::Seconds(20));
    reserve_request_ = SampleReserveRequest();
    (*reserve_request_.mutable_labels())["build"] = "7";
    recovery_ = [this](const RecoveryCase& recovery) {
      cases_.push_back(recovery);
      return RecoveryDecision::LeaveUnknown();
    };
  }
  ~RecoveryTest() override {
    if (background_recovery_ != nullptr) background_recovery_->Stop();
    store_->Recover();
    reservations_->Close();
    pools_.Stop();
  }

  // With the test's changes so far.
  std::shared_ptr<const GuardedOperation> MakeOperation() {
    GuardedOperation operation{"/till/Charge", policy_, options_,
                               *reservations_, pools_,  UnknownOutcome::kRecover};
    operation.recovery = recovery_;
    operation.request_type = std::string(v1::ReserveRequest::descriptor()->full_name());
    operation.reply_type = ReplyType(*v1::RecordKey::descriptor());
    operation.unknown_outcomes = background_recovery_;
    operation.log = std::make_shared<GuardLog>(log_.Sink());
    return std::make_shared<const GuardedOperation>(std::move(operation));
  }

  Admission::Decision Admit(std::chrono::milliseconds patience = kSoon) {
    std::promise<Admission::Decision> decision;
    Admission::Admit(
        MakeOperation(), std::make_shared<v1::ReserveRequest>(reserve_request_),
        reservations_->Now() + patience,
        [&decision](Admission::Decision decided) { decision.set_value(std::move(decided)); },
        &reserve_request_);
    return decision.get_future().get();
  }
  std::shared_ptr<LiveExecution> AdmitGranted() {
    const Admission::Decision decision = Admit();
    return std::get<Admission::Granted>(decision).execution;
  }
  std::optional<Reason> AdmitRefused() {
    const Admission::Decision decision = Admit();
    return ReasonOf(std::get<Admission::Refused>(decision).why);
  }

  absl::Status Settle(const std::shared_ptr<LiveExecution>& execution, grpc::StatusCode code) {
    v1::Reply reply;
    reply.set_code(static_cast<int>(code));
    std::promise<absl::Status> settled;
    Settlement::Settle(
        execution, std::make_unique<v1::Reply>(reply),
        [&settled](const Settlement::Outcome& outcome) { settled.set_value(outcome.error); });
    return settled.get_future().get();
  }

  // An attempt that stored a checkpoint and ended without an answer.
  void LeaveADeadAttempt() {
    const auto execution = AdmitGranted();
    EXPECT_TRUE(execution->Checkpoint("half").ok());
    execution->reservation()->LetLapse();
    store_->LoseTrace();
  }

  FakeConnection* store_ = nullptr;
  std::unique_ptr<ReservationClient> reservations_;
  WorkerPools pools_;
  FakeScheduler scheduler_;
  std::shared_ptr<BackgroundRecovery> background_recovery_;
  GuardOptions options_;
  MethodPolicy policy_;
  RecoveryHandler recovery_;
  v1::ReserveRequest reserve_request_;
  std::vector<RecoveryCase> cases_;
  testing::LogLines log_;
};

TEST_F(RecoveryTest, HandlerGetsTheStateOfTheLostAttempt) {
  LeaveADeadAttempt();
  EXPECT_EQ(AdmitRefused(), Reason::kOutcomeUnknown);
  ASSERT_EQ(cases_.size(), 1u);
  EXPECT_EQ(cases_[0].checkpoint, "half");
  EXPECT_EQ(cases_[0].attempt, 2u);
  EXPECT_EQ(cases_[0].labels.at("build"), "7");
  EXPECT_EQ(cases_[0].record_key.key, "order-1");
  EXPECT_EQ(cases_[0].record_key.scope, "alice");
  EXPECT_FALSE(cases_[0].record_id.empty());
  EXPECT_EQ(cases_[0].request, &reserve_request_);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_UNKNOWN);
}

TEST_F(RecoveryTest, NeverRunsForAFreshRecordOrAReleasedOne) {
  const auto first = AdmitGranted();
  first->MarkNoEffect();
  EXPECT_TRUE(Settle(first, grpc::StatusCode::UNAVAILABLE).ok());
  const auto second = AdmitGranted();
  EXPECT_EQ(second->attempt(), 2u);
  // Otherwise the end would wait for it.
  second->reservation()->LetLapse();
  EXPECT_TRUE(store_->last_reserve().recover());
  EXPECT_TRUE(cases_.empty());
}

TEST_F(RecoveryTest, WithoutAHandlerNoRecoveryIsRequested) {
  recovery_ = nullptr;
  LeaveADeadAttempt();
  EXPECT_EQ(AdmitRefused(), Reason::kOutcomeUnknown);
  EXPECT_FALSE(store_->last_reserve().recover());
}

TEST_F(RecoveryTest, ReplyIsRecordedAndGivenToEveryCaller) {
  LeaveADeadAttempt();
  recovery_ = [](const RecoveryCase&) { return RecoveryDecision::CompleteWith(Receipt()); };
  for (int call = 0; call < 2; ++call) {
    const Admission::Decision decision = Admit();
    const auto& replayed = std::get<Admission::Replayed>(decision);
    EXPECT_EQ(replayed.reply.stored().body(), Receipt().SerializeAsString());
    EXPECT_EQ(replayed.reply.Whole().trailing_metadata().size(), 3);
  }
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_COMPLETED);
  EXPECT_EQ(store_->record().attempt, 2u);
}

TEST_F(RecoveryTest, FailureIsRecordedIfTheMethodRecordsItsCode) {
  LeaveADeadAttempt();
  recovery_ = [](const RecoveryCase&) {
    return RecoveryDecision::CompleteWith(grpc::Status(grpc::StatusCode::NOT_FOUND, "no card"));
  };
  const Admission::Decision decision = Admit();
  EXPECT_EQ(std::get<Admission::Replayed>(decision).reply.stored().message(), "no card");
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_COMPLETED);
}

// A retry would run the operation.
TEST_F(RecoveryTest, AFailureWhoseRecordIsGoneIsNoReplayAndIsNotRetried) {
  LeaveADeadAttempt();
  recovery_ = [this](const RecoveryCase&) {
    store_->LoseRecord();
    return RecoveryDecision::CompleteWith(grpc::Status(grpc::StatusCode::NOT_FOUND, "no card"));
  };
  const Admission::Decision decision = Admit();
  const SentReply& sent = std::get<Admission::Replayed>(decision).reply;
  EXPECT_EQ(sent.stored().message(), "no card");
  const std::map<std::string, std::string> trailers(sent.trailers().begin(), sent.trailers().end());
  EXPECT_EQ(trailers.count("idempotency-replayed"), 0u);
  EXPECT_EQ(trailers.count("idempotency-expires"), 0u);
  EXPECT_EQ(trailers.count("idempotency-record"), 1u);
  ASSERT_EQ(trailers.count("grpc-retry-pushback-ms"), 1u);
  EXPECT_EQ(trailers.at("grpc-retry-pushback-ms"), "-1");
}

TEST_F(RecoveryTest, AMessageThatIsNotUtf8IsRecorded) {
  LeaveADeadAttempt();
  recovery_ = [](const RecoveryCase&) {
    return RecoveryDecision::CompleteWith(grpc::Status(grpc::StatusCode::NOT_FOUND, "caf\xE9"));
  };
  const Admission::Decision decision = Admit();
  const auto* replayed = std::get_if<Admission::Replayed>(&decision);
  ASSERT_NE(replayed, nullptr);
  EXPECT_EQ(replayed->reply.stored().message(), "caf?");
  EXPECT_EQ(store_->record().reply.message(), "caf?");
}

TEST_F(RecoveryTest, WhatCannotBeRecordedStaysUnknown) {
  LeaveADeadAttempt();
  const std::vector<RecoveryHandler> wrong = {
      [](const RecoveryCase&) {
        return RecoveryDecision::CompleteWith(grpc::Status(grpc::StatusCode::UNAVAILABLE, ""));
      },
      [](const RecoveryCase&) { return RecoveryDecision::CompleteWith(grpc::Status::OK); },
      [](const RecoveryCase&) { return RecoveryDecision::CompleteWith(v1::ReserveRequest()); },
      [](const RecoveryCase&) {
        return RecoveryDecision::CompleteWith(
            ToGrpcStatus(MakeError(Reason::kKeyReused, "of another guard")));
      },
      [](const RecoveryCase&) -> RecoveryDecision {
        throw std::runtime_error("as the test requests");
      },
      [](const RecoveryCase&) -> RecoveryDecision { throw 7; },
  };
  for (const RecoveryHandler& handler : wrong) {
    recovery_ = handler;
    EXPECT_EQ(AdmitRefused(), Reason::kOutcomeUnknown);
    EXPECT_EQ(store_->record().state, v1::RECORD_STATE_UNKNOWN);
  }
}

TEST_F(RecoveryTest, ReleaseLetsThisVeryCallRun) {
  LeaveADeadAttempt();
  recovery_ = [](const RecoveryCase&) { return RecoveryDecision::Release(); };
  const auto execution = AdmitGranted();
  EXPECT_EQ(execution->attempt(), 2u);
  EXPECT_EQ(execution->checkpoint(), "half");
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_RESERVED);
  EXPECT_EQ(store_->calls(Operation::kRelease), 0);
  EXPECT_TRUE(Settle(execution, grpc::StatusCode::OK).ok());
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_COMPLETED);
}

TEST_F(RecoveryTest, RecoveryThatLostItsReservationRunsAndSettlesNothing) {
  LeaveADeadAttempt();
  for (const auto& decision : {RecoveryDecision::Release(), RecoveryDecision::LeaveUnknown(),
                               RecoveryDecision::CompleteWith(Receipt())}) {
    recovery_ = [&](const RecoveryCase& recovery) {
      store_->TakeOver();
      EXPECT_EQ(ReasonOf(recovery.execution->Checkpoint("on it")), Reason::kReservationLost);
      EXPECT_TRUE(recovery.execution->lost());
      return decision;
    };
    // The operation that was to run requests again; the refusal shows the present owner.
    EXPECT_EQ(AdmitRefused(), decision.kind() == RecoveryDecision::Kind::kRelease
                                  ? Reason::kInFlight
                                  : Reason::kReservationLost);
    EXPECT_EQ(store_->record().state, v1::RECORD_STATE_RESERVED);
    store_->LoseTrace();
  }
}

// Behind recoveries that hang.
class QueuedRecoveryTest : public RecoveryTest {
 protected:
  QueuedRecoveryTest() {
    policy_.lease = absl::Seconds(1);
    options_.hooks.on_lost = [this](const LostEvent&) { lost_.set_value(); };
    LeaveADeadAttempt();
    for (int i = 0; i < GuardThreads().recovery; ++i) {
      pools_.recovery.Run([freed = freed_] { freed.wait(); });
    }
    const int before = store_->calls(Operation::kReserve);
    extended_ = store_->calls(Operation::kExtend);
    decision_ = std::async(std::launch::async, [this] { return Admit(); });
    EXPECT_TRUE(store_->WaitForCalls(Operation::kReserve, before + 1));
  }

  // Frees the threads, and returns the reason of the refusal.
  std::optional<Reason> Refusal() {
    free_.set_value();
    const Admission::Decision decision = decision_.get();
    const auto* const refused = std::get_if<Admission::Refused>(&decision);
    return refused == nullptr ? std::nullopt : ReasonOf(refused->why);
  }

  std::promise<void> free_;
  const std::shared_future<void> freed_ = free_.get_future().share();
  std::promise<void> lost_;
  // Calls of Extend before the recovery.
  int extended_ = 0;
  std::future<Admission::Decision> decision_;
};

TEST_F(QueuedRecoveryTest, ARecoveryWhoseLeaseIsOverDoesNotBegin) {
  store_->TakeOver();
  ASSERT_EQ(lost_.get_future().wait_for(kSoon), std::future_status::ready);
  EXPECT_EQ(Refusal(), Reason::kReservationLost);
  EXPECT_TRUE(cases_.empty());
}

TEST_F(QueuedRecoveryTest, NoRecoveryBeginsOnceTheGuardIsClosed) {
  // It has its grant, and is queued.
  ASSERT_TRUE(store_->WaitForCalls(Operation::kExtend, extended_ + 1));
  auto closes = std::async(std::launch::async, [this] { reservations_->Close(); });
  while (!reservations_->closed()) std::this_thread::yield();
  EXPECT_EQ(Refusal(), Reason::kOutcomeUnknown);
  closes.wait();
  EXPECT_TRUE(cases_.empty());
}

TEST_F(RecoveryTest, TypedHandlerGetsItsRequest) {
  LeaveADeadAttempt();
  recovery_ = TypedRecovery<v1::ReserveRequest, v1::RecordKey>(
      [](const RecoveryCase&, const v1::ReserveRequest* request) {
        v1::RecordKey reply = Receipt();
        reply.set_scope(request->record_key().scope());
        return TypedRecoveryDecision<v1::RecordKey>::CompleteWith(reply);
      });
  const Admission::Decision decision = Admit();
  v1::RecordKey reply;
  ASSERT_TRUE(reply.ParseFromString(std::get<Admission::Replayed>(decision).reply.stored().body()));
  EXPECT_EQ(reply.scope(), "alice");
}

TEST_F(RecoveryTest, ATypedHandlerForAnotherRequestTypeLeavesTheOutcomeUnknown) {
  LeaveADeadAttempt();
  bool called = false;
  recovery_ = TypedRecovery<v1::GetRequest, v1::RecordKey>(
      [&called](const RecoveryCase&, const v1::GetRequest*) {
        called = true;
        return TypedRecoveryDecision<v1::RecordKey>::Release();
      });
  EXPECT_EQ(AdmitRefused(), Reason::kOutcomeUnknown);
  EXPECT_FALSE(called);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_UNKNOWN);
  EXPECT_EQ(
      log_.Count("its handler is made for idempotency.v1.GetRequest, but the request is of type "
                 "idempotency.v1.ReserveRequest"),
      1u);
}

TEST_F(RecoveryTest, NonOkReplyOfAnAttemptThatLostIsNotTakenForTheOperations) {
  for (const auto code : {grpc::StatusCode::OK, grpc::StatusCode::NOT_FOUND,
                          grpc::StatusCode::INTERNAL, grpc::StatusCode::CANCELLED}) {
    reserve_request_.mutable_record_key()->set_key(std::to_string(code));
    int lost_attempts = 0;
    options_.hooks.on_lost = [&lost_attempts](const LostEvent& event) {
      lost_attempts += static_cast<int>(event.attempt);
    };
    const auto execution = AdmitGranted();
    store_->TakeOver();
    EXPECT_EQ(ReasonOf(Settle(execution, code)), Reason::kReservationLost) << code;
    EXPECT_EQ(lost_attempts, 1) << code;
  }
}

class BackgroundRecoveryTest : public RecoveryTest {
 protected:
  void Remember(std::size_t limit) {
    background_recovery_ = BackgroundRecovery::Make(scheduler_, limit, /*at_once=*/2);
  }
  // Advances to one more try of the only record. It ends on other threads.
  void TryOnce() {
    const int before = store_->calls(Operation::kReserve);
    scheduler_.Advance(BackgroundRecovery::kLongestPause);
    EXPECT_TRUE(store_->WaitForCalls(Operation::kReserve, before + 1));
  }
  bool WaitUntilForgotten() {
    return WaitUntil([this] { return background_recovery_->size() == 0; });
  }
  // True once the next try is scheduled.
  bool WaitUntilPlanned() {
    return WaitUntil([this] { return scheduler_.pending() == 1; });
  }

  static bool WaitUntil(const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + kSoon;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
};

TEST_F(BackgroundRecoveryTest, RecoversWhatAHandlerLeftUnknown) {
  Remember(10);
  std::promise<RecoveryCase> seen;
  recovery_ = [&seen](const RecoveryCase& recovery) {
    seen.set_value(recovery);
    return RecoveryDecision::CompleteWith(Receipt());
  };
  EXPECT_TRUE(Settle(AdmitGranted(), grpc::StatusCode::INTERNAL).ok());
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_UNKNOWN);
  EXPECT_EQ(background_recovery_->size(), 1u);
  TryOnce();
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_COMPLETED));
  EXPECT_TRUE(WaitUntilForgotten());
  EXPECT_EQ(seen.get_future().get().request, nullptr);
}

// Without a request too.
TEST_F(BackgroundRecoveryTest, CallsNoTypedHandlerForAnotherRequestType) {
  Remember(10);
  std::atomic<bool> called{false};
  recovery_ = TypedRecovery<v1::GetRequest, v1::RecordKey>(
      [&called](const RecoveryCase&, const v1::GetRequest*) {
        called = true;
        return TypedRecoveryDecision<v1::RecordKey>::Release();
      });
  EXPECT_TRUE(Settle(AdmitGranted(), grpc::StatusCode::INTERNAL).ok());
  TryOnce();
  EXPECT_TRUE(WaitUntilPlanned());
  EXPECT_FALSE(called);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_UNKNOWN);
  EXPECT_GE(log_.Count("its handler is made for idempotency.v1.GetRequest, but the request is of "
                       "type idempotency.v1.ReserveRequest"),
            1u);
}

TEST_F(BackgroundRecoveryTest, CallsATypedHandlerOfTheRequestTypeWithoutARequest) {
  Remember(10);
  std::promise<const v1::ReserveRequest*> seen;
  recovery_ = TypedRecovery<v1::ReserveRequest, v1::RecordKey>(
      [&seen](const RecoveryCase&, const v1::ReserveRequest* request) {
        seen.set_value(request);
        return TypedRecoveryDecision<v1::RecordKey>::CompleteWith(Receipt());
      });
  EXPECT_TRUE(Settle(AdmitGranted(), grpc::StatusCode::INTERNAL).ok());
  TryOnce();
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_COMPLETED));
  EXPECT_TRUE(WaitUntilForgotten());
  EXPECT_EQ(seen.get_future().get(), nullptr);
}

TEST_F(BackgroundRecoveryTest, ReleasesWhereNothingHappened) {
  Remember(10);
  recovery_ = [](const RecoveryCase&) { return RecoveryDecision::Release(); };
  EXPECT_TRUE(Settle(AdmitGranted(), grpc::StatusCode::INTERNAL).ok());
  TryOnce();
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_RELEASED));
  EXPECT_TRUE(WaitUntilForgotten());
}

TEST_F(BackgroundRecoveryTest, TriesAgainWhatStaysUnknownAndForgetsWhatAnotherSettled) {
  Remember(10);
  EXPECT_TRUE(Settle(AdmitGranted(), grpc::StatusCode::INTERNAL).ok());
  TryOnce();
  ASSERT_TRUE(WaitUntilPlanned());
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_UNKNOWN);
  // A second try may have been due before that time had passed.
  const std::uint32_t tried = store_->record().attempt;
  EXPECT_GE(tried, 2u);
  recovery_ = [](const RecoveryCase&) { return RecoveryDecision::CompleteWith(Receipt()); };
  const Admission::Decision decision = Admit();
  EXPECT_TRUE(std::holds_alternative<Admission::Replayed>(decision));
  TryOnce();
  EXPECT_TRUE(WaitUntilForgotten());
  EXPECT_EQ(store_->record().attempt, tried + 1) << "the call's own recovery, and no other";
}

TEST_F(BackgroundRecoveryTest, CoversAReleaseThatIsNotAcknowledged) {
  Remember(10);
  store_->Fail(Operation::kRelease, InvalidField("reason", "no"), 1);
  const auto execution = AdmitGranted();
  execution->MarkNoEffect();
  EXPECT_TRUE(Settle(execution, grpc::StatusCode::UNAVAILABLE).ok());
  EXPECT_EQ(background_recovery_->size(), 1u);
}

TEST_F(BackgroundRecoveryTest, CoversAReplyThatIsRefusedForGood) {
  Remember(10);
  store_->Fail(Operation::kComplete, InvalidField("reply", "no"), 2);
  EXPECT_EQ(ReasonOf(Settle(AdmitGranted(), grpc::StatusCode::OK)), Reason::kOutcomeNotRecorded);
  EXPECT_EQ(background_recovery_->size(), 1u);
}

TEST_F(BackgroundRecoveryTest, CoversAReplyThatLostItsReservation) {
  Remember(10);
  const auto execution = AdmitGranted();
  store_->TakeOver();
  EXPECT_EQ(ReasonOf(Settle(execution, grpc::StatusCode::OK)), Reason::kReservationLost);
  EXPECT_EQ(background_recovery_->size(), 1u);
}

TEST_F(BackgroundRecoveryTest, CoversAGrantWhoseHandlerDidNotRun) {
  Remember(10);
  store_->Fail(Operation::kRelease, InvalidField("reason", "no"), 1);
  AdmitGranted()->reservation()->GiveBack("the lease expired", [] {});
  EXPECT_EQ(background_recovery_->size(), 1u);
}

TEST_F(BackgroundRecoveryTest, CoversAGrantThatIsLeftToItsLease) {
  Remember(10);
  AdmitGranted()->reservation()->LetLapse();
  EXPECT_EQ(background_recovery_->size(), 1u);
}

TEST_F(BackgroundRecoveryTest, CoversAGrantWithoutAWaitingCaller) {
  LeaveADeadAttempt();
  Remember(10);
  store_->HoldAnswers(Operation::kReserve);
  const Admission::Decision decision = Admit(std::chrono::milliseconds(50));
  EXPECT_TRUE(std::holds_alternative<Admission::Refused>(decision));
  store_->AnswerHeld(Operation::kReserve);
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_UNKNOWN));
  EXPECT_TRUE(WaitUntilPlanned());
  EXPECT_EQ(background_recovery_->size(), 1u);
}

TEST_F(BackgroundRecoveryTest, KeepsARecordUntilItsReleaseIsAnswered) {
  Remember(10);
  recovery_ = [](const RecoveryCase&) { return RecoveryDecision::Release(); };
  EXPECT_TRUE(Settle(AdmitGranted(), grpc::StatusCode::INTERNAL).ok());
  store_->Fail(Operation::kRelease, InvalidField("reason", "no"), 1);
  TryOnce();
  EXPECT_TRUE(store_->WaitForCalls(Operation::kRelease, 2));
  EXPECT_TRUE(WaitUntilPlanned());
  EXPECT_EQ(background_recovery_->size(), 1u);
}

TEST_F(BackgroundRecoveryTest, KeepsARecordThatIsLeftOpenAgainDuringItsTry) {
  Remember(10);
  recovery_ = [](const RecoveryCase&) { return RecoveryDecision::Release(); };
  EXPECT_TRUE(Settle(AdmitGranted(), grpc::StatusCode::INTERNAL).ok());
  store_->HoldAnswers(Operation::kRelease);
  TryOnce();
  ASSERT_TRUE(store_->WaitForState(v1::RECORD_STATE_RELEASED));
  // The client calls again before the answer to the release arrives.
  AdmitGranted()->reservation()->LetLapse();
  store_->AnswerHeld(Operation::kRelease);
  EXPECT_TRUE(WaitUntilPlanned());
  EXPECT_EQ(background_recovery_->size(), 1u);
}

TEST_F(BackgroundRecoveryTest, APurgedRecordIsNotCreatedAgain) {
  Remember(10);
  EXPECT_TRUE(Settle(AdmitGranted(), grpc::StatusCode::INTERNAL).ok());
  store_->LoseRecord();
  const int before = store_->calls(Operation::kReserve);
  scheduler_.Advance(BackgroundRecovery::kLongestPause);
  EXPECT_TRUE(WaitUntilForgotten());
  EXPECT_EQ(store_->calls(Operation::kReserve), before);
}

TEST_F(BackgroundRecoveryTest, AGuardThatMayNotReadRecoversAllTheSame) {
  Remember(10);
  recovery_ = [](const RecoveryCase&) { return RecoveryDecision::CompleteWith(Receipt()); };
  EXPECT_TRUE(Settle(AdmitGranted(), grpc::StatusCode::INTERNAL).ok());
  store_->Fail(Operation::kGet, MakeError(Reason::kAccessDenied, "no rule permits this"), 1'000);
  TryOnce();
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_COMPLETED));
  EXPECT_TRUE(WaitUntilForgotten());
}

TEST_F(BackgroundRecoveryTest, AReadWithoutAnAnswerOnlyDelaysIt) {
  Remember(10);
  EXPECT_TRUE(Settle(AdmitGranted(), grpc::StatusCode::INTERNAL).ok());
  store_->Fail(Operation::kGet, MakeError(Reason::kStoreUnavailable, "away"), 1);
  const int before = store_->calls(Operation::kReserve);
  scheduler_.Advance(BackgroundRecovery::kFirstPause);
  EXPECT_EQ(store_->calls(Operation::kReserve), before);
  EXPECT_EQ(background_recovery_->size(), 1u);
}

TEST_F(BackgroundRecoveryTest, StoreThatIsAwayOnlyDelaysIt) {
  Remember(10);
  options_.verdict_timeout = absl::Milliseconds(20);
  EXPECT_TRUE(Settle(AdmitGranted(), grpc::StatusCode::INTERNAL).ok());
  store_->Fail(Operation::kReserve, MakeError(Reason::kStoreUnavailable, "away"), 1'000'000);
  TryOnce();
  EXPECT_TRUE(WaitUntilPlanned());
  EXPECT_EQ(background_recovery_->size(), 1u);
}

TEST_F(BackgroundRecoveryTest, ARefusalOfTheGuardOnlyDelaysIt) {
  for (const Reason reason : {Reason::kAccessDenied, Reason::kCredentialsInvalid}) {
    Remember(10);
    store_->Recover();
    reserve_request_.mutable_record_key()->set_key(std::string(ReasonName(reason)));
    EXPECT_TRUE(Settle(AdmitGranted(), grpc::StatusCode::INTERNAL).ok());
    store_->Fail(Operation::kReserve, MakeError(reason, "no rule permits this"), 1'000'000);
    TryOnce();
    EXPECT_TRUE(WaitUntilPlanned()) << ReasonName(reason);
    EXPECT_EQ(background_recovery_->size(), 1u) << ReasonName(reason);
    background_recovery_->Stop();
    scheduler_.Advance(BackgroundRecovery::kLongestPause);
  }
}

// The attempt that now holds the record may leave its outcome open.
TEST_F(BackgroundRecoveryTest, LooksAfterWhatAnotherAttemptTookOver) {
  Remember(10);
  recovery_ = [](const RecoveryCase&) { return RecoveryDecision::CompleteWith(Receipt()); };
  const auto execution = AdmitGranted();
  store_->TakeOver();
  EXPECT_EQ(ReasonOf(Settle(execution, grpc::StatusCode::OK)), Reason::kReservationLost);
  store_->LoseTrace();
  TryOnce();
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_COMPLETED));
  EXPECT_TRUE(WaitUntilForgotten());
}

// The tries of others are no failures of a record: after an outage many wait.
TEST_F(BackgroundRecoveryTest, ManyRecordsAreRecoveredOneAfterAnother) {
  constexpr std::size_t kRecords = 20;
  background_recovery_ = BackgroundRecovery::Make(scheduler_, kRecords, /*at_once=*/1);
  Mutex step;
  recovery_ = [&step](const RecoveryCase&) {
    const MutexLock lock(step);
    return RecoveryDecision::CompleteWith(Receipt());
  };
  for (std::size_t i = 0; i < kRecords; ++i) {
    reserve_request_.mutable_record_key()->set_key("order-" + std::to_string(i));
    EXPECT_TRUE(Settle(AdmitGranted(), grpc::StatusCode::INTERNAL).ok());
  }
  ASSERT_EQ(background_recovery_->size(), kRecords);
  for (int second = 0; second < 30; ++second) {
    {
      // Its recovery ends after all tries of this second were due.
      const MutexLock lock(step);
      scheduler_.Advance(absl::Seconds(1));
    }
    ASSERT_TRUE(WaitUntil([this] { return scheduler_.pending() == background_recovery_->size(); }));
  }
  EXPECT_EQ(background_recovery_->size(), 0u);
}

TEST_F(BackgroundRecoveryTest, IsBounded) {
  Remember(2);
  for (const char* key : {"a", "b", "c"}) {
    reserve_request_.mutable_record_key()->set_key(key);
    EXPECT_TRUE(Settle(AdmitGranted(), grpc::StatusCode::INTERNAL).ok());
  }
  EXPECT_EQ(background_recovery_->size(), 2u);
}

TEST_F(BackgroundRecoveryTest, IgnoresSettledRecordsAndMethodsWithoutAHandler) {
  Remember(10);
  EXPECT_TRUE(Settle(AdmitGranted(), grpc::StatusCode::OK).ok());
  recovery_ = nullptr;
  reserve_request_.mutable_record_key()->set_key("another");
  EXPECT_TRUE(Settle(AdmitGranted(), grpc::StatusCode::INTERNAL).ok());
  EXPECT_EQ(background_recovery_->size(), 0u);
}

TEST_F(BackgroundRecoveryTest, StopForgetsEverything) {
  Remember(10);
  EXPECT_TRUE(Settle(AdmitGranted(), grpc::StatusCode::INTERNAL).ok());
  background_recovery_->Stop();
  EXPECT_EQ(background_recovery_->size(), 0u);
  const int before = store_->calls(Operation::kReserve);
  scheduler_.Advance(BackgroundRecovery::kLongestPause);
  EXPECT_EQ(store_->calls(Operation::kReserve), before);
}

}  // namespace
}  // namespace idempotency::internal
