#include "interceptors/server/admission/recovery.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/retry_delays.h"
#include "core/utf8.h"
#include "core/wire_time.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "interceptors/server/admission/rejection.h"
#include "interceptors/server/execution/settlement.h"
#include "interceptors/server/policy/disposition_rule.h"
#include "interceptors/server/request/application_call.h"
#include "interceptors/server/wire/guard_errors.h"

namespace idempotency::internal {
namespace {

constexpr char kUndecided[] = "the recovery handler could not determine the outcome";

RecoveryCase CaseOf(LiveExecution& execution, const google::protobuf::Message* request) {
  RecoveryCase recovery;
  recovery.record_id = execution.record_id();
  recovery.record_key = FromProto(execution.reserve_request().record_key());
  recovery.attempt = execution.attempt();
  recovery.checkpoint = execution.checkpoint();
  recovery.labels = execution.labels();
  recovery.created_at = FromWire(execution.reserved().created_at());
  recovery.request = request;
  recovery.request_type = execution.operation().request_type;
  recovery.execution = &execution;
  return recovery;
}

absl::Status TooManyWait() {
  return MakeError(Reason::kOverloaded,
                   "an earlier attempt's outcome is unknown and too many operations wait for "
                   "recovery; nothing was run: call again later with the same idempotency key",
                   RetryAfter(retry_delays::kGuardOverloaded));
}

}  // namespace

void Recovery::Run(std::shared_ptr<LiveExecution> execution,
                   const google::protobuf::Message* request, Done done) {
  std::make_shared<Recovery>(PassKey<Recovery>(), std::move(execution), request, std::move(done))
      ->Start();
}

Recovery::Recovery(PassKey<Recovery> /*key*/, std::shared_ptr<LiveExecution> execution,
                   const google::protobuf::Message* request, Done done)
    : execution_(std::move(execution)), request_(request), done_(std::move(done)) {}

void Recovery::Start() {
  const auto give_up = [self = shared_from_this()] {
    self->LeaveUnknown(OutcomeUndecided(self->execution_->attempt(), kUndecided));
  };
  // It may have waited for a thread for any time.
  const auto decide = [self = shared_from_this(), give_up] {
    if (self->execution_->lost()) {
      self->GiveWay();
    } else if (self->execution_->operation().reservations.closed()) {
      give_up();
    } else {
      self->Settle(self->Decide());
    }
  };
  switch (execution_->operation().pools.recovery.Run(decide, give_up)) {
    case WorkerPool::Outcome::kTaken:
      return;
    case WorkerPool::Outcome::kFull:
      LeaveUnknown(TooManyWait());
      return;
    case WorkerPool::Outcome::kStopped:
      give_up();
      return;
  }
}

RecoveryDecision Recovery::Decide() {
  const GuardedOperation& operation = execution_->operation();
  RecoveryDecision decision = RecoveryDecision::LeaveUnknown();
  // A record that needs recovery, of a method that no longer has a recovery handler.
  if (!operation.recovery) return decision;
  RunApplication(*operation.log, operation.name, "the recovery handler",
                 [&] { decision = operation.recovery(CaseOf(*execution_, request_)); });
  return decision;
}

void Recovery::Settle(const RecoveryDecision& decision) {
  const GuardedOperation& operation = execution_->operation();
  if (decision.kind() == RecoveryDecision::Kind::kRelease) {
    operation.log->Info(LogEvent::kRecovered, operation.name, ": recovery of record ",
                        execution_->record_id(), ": nothing happened");
    done_(NoEffect{});
    return;
  }
  if (decision.kind() == RecoveryDecision::Kind::kComplete) {
    const absl::Status why_not = WhyNotRecordable(decision);
    if (why_not.ok()) {
      Complete(decision);
      return;
    }
    operation.log->Error(LogEvent::kRecoveryFailed, operation.name, ": recovery of record ",
                         execution_->record_id(), ": ", why_not.message());
  }
  if (!decision.fault().empty()) {
    operation.log->Error(LogEvent::kRecoveryFailed, operation.name, ": recovery of record ",
                         execution_->record_id(), ": ", decision.fault());
  }
  LeaveUnknown(OutcomeUndecided(execution_->attempt(), kUndecided));
}

absl::Status Recovery::WhyNotRecordable(const RecoveryDecision& decision) const {
  const GuardedOperation& operation = execution_->operation();
  const grpc::StatusCode code = StatusCodeFrom(decision.reply().code());
  if (!IsRecorded(operation.policy, code)) {
    return absl::InvalidArgumentError(absl::StrCat("its handler returned the code ",
                                                   decision.reply().code(),
                                                   ", which the method does not record"));
  }
  if (!IsOutcome(code, decision.reply().details())) {
    return absl::InvalidArgumentError(
        "its handler returned an error with a reason of this library, which is no outcome of this "
        "operation");
  }
  if (code == grpc::StatusCode::OK && !operation.reply_type.name().empty() &&
      decision.reply_type() != operation.reply_type.name()) {
    return absl::InvalidArgumentError(absl::StrCat("its handler returned a ", decision.reply_type(),
                                                   ", but the method's reply type is ",
                                                   operation.reply_type.name()));
  }
  return absl::OkStatus();
}

void Recovery::Complete(const RecoveryDecision& decision) {
  v1::Reply reply = decision.reply();
  // As in the capturing interceptor.
  reply.set_message(ToUtf8(reply.message()));
  Settlement::Settle(execution_, std::make_unique<v1::Reply>(reply),
                     [self = shared_from_this(), reply](const Settlement::Outcome& outcome) {
                       if (outcome.error.ok()) {
                         self->done_(Completed{reply, outcome.expires_at, outcome.unrecorded});
                       } else {
                         self->done_(Open{outcome.error});
                       }
                     });
}

void Recovery::GiveWay() {
  const GuardedOperation& operation = execution_->operation();
  operation.log->Warn(
      LogEvent::kLateGrant, operation.name, ": the lease of attempt ", execution_->attempt(),
      " expired before its recovery handler could start, record ", execution_->record_id());
  execution_->reservation()->LetLapse();
  done_(Open{ReservationLost()});
}

void Recovery::LeaveUnknown(const absl::Status& why) {
  execution_->reservation()->Release(
      kUndecided, v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN, [self = shared_from_this(), why] {
        const absl::Status loss = self->execution_->reservation()->loss();
        self->done_(Open{loss.ok() ? why : loss});
      });
}

}  // namespace idempotency::internal
