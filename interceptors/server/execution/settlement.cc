#include "interceptors/server/execution/settlement.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/absl_view.h"
#include "core/retry_delays.h"
#include "core/wire_time.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/ledger/recorded_reply.h"
#include "grpc_idempotency/server_guard/guard_hooks.h"
#include "interceptors/server/execution/hook_call.h"
#include "interceptors/server/execution/reply_to_store.h"
#include "interceptors/server/limits.h"
#include "interceptors/server/policy/disposition_rule.h"
#include "interceptors/server/policy/unknown_outcome.h"
#include "interceptors/server/wire/guard_errors.h"
#include "interceptors/server/wire/traceparent.h"

namespace idempotency::internal {

namespace {

absl::Status NotRecorded(std::string_view message) {
  return MakeError(Reason::kOutcomeNotRecorded, message);
}

// A status that the handler passes on from a call of its own is as good as no answer, of which
// UNAVAILABLE is the usual code.
grpc::StatusCode DecidingCode(const MethodPolicy& policy, grpc::StatusCode code,
                              const v1::Reply& reply) {
  const bool decides =
      !CanBeRecorded(code) ||
      (IsReleased(policy, code)
           ? ReportsNoEffect(policy, grpc::Status(code, reply.message(), reply.details()))
           : IsOutcome(code, reply.details()));
  return decides ? code : grpc::StatusCode::UNAVAILABLE;
}

std::string_view DispositionName(Disposition disposition) {
  switch (disposition) {
    case Disposition::kComplete:
      return "complete";
    case Disposition::kRelease:
      return "release";
    case Disposition::kReleaseUnknown:
      return "release_unknown";
    case Disposition::kLetLapse:
      return "let_lapse";
    case Disposition::kReleaseLater:
      break;
  }
  return "release_later";
}

// The reply is recorded, but a gRPC batch for a failure cannot carry a message: the caller gets
// the reply with its next try.
absl::Status AnsweredByLedger() {
  return MakeErrorWithCode(Reason::kReservationLost, absl::StatusCode::kAborted,
                           "this operation is committed with a reply other than this attempt's: "
                           "call again with the same idempotency key for it",
                           RetryAfter(retry_delays::kReplyRecorded));
}

}  // namespace

void Settlement::Settle(std::shared_ptr<LiveExecution> execution, std::unique_ptr<v1::Reply> reply,
                        Done done, std::string reason) {
  const auto settlement = Make(std::move(execution), std::move(reply), std::move(done));
  settlement->release_reason_ = std::move(reason);
  settlement->Start();
}

void Settlement::ReleaseWithoutEffect(std::shared_ptr<LiveExecution> execution, std::string reason,
                                      Done done) {
  execution->MarkNoEffect();
  // A code that no policy can record, and that makes callers retry.
  auto reply = std::make_unique<v1::Reply>();
  reply->set_code(static_cast<int>(grpc::StatusCode::UNAVAILABLE));
  const auto settlement = Make(std::move(execution), std::move(reply), std::move(done));
  settlement->release_reason_ = std::move(reason);
  settlement->Start();
}

void Settlement::Complete(std::shared_ptr<LiveExecution> execution,
                          std::unique_ptr<v1::Reply> reply, Done done) {
  Make(std::move(execution), std::move(reply), std::move(done))->Dispose(Disposition::kComplete);
}

std::shared_ptr<Settlement> Settlement::Make(std::shared_ptr<LiveExecution> execution,
                                             std::unique_ptr<v1::Reply> reply, Done done) {
  return std::make_shared<Settlement>(PassKey<Settlement>(), std::move(execution), std::move(reply),
                                      std::move(done));
}

Settlement::Settlement(PassKey<Settlement> /*key*/, std::shared_ptr<LiveExecution> execution,
                       std::unique_ptr<v1::Reply> reply, Done done)
    : execution_(std::move(execution)),
      span_(CallSpan::Start(execution_->operation(), "idempotency recording",
                            TraceparentOf(execution_->reserve_request().labels()))),
      code_(StatusCodeFrom(reply->code())),
      deciding_code_(DecidingCode(execution_->operation().policy, code_, *reply)),
      reply_(std::move(reply)),
      done_(std::move(done)) {}

void Settlement::Start() {
  LogPassedOn();
  if (std::optional<v1::Reply> committed = execution_->committed(); committed.has_value()) {
    commit_acknowledged_ = true;
    OnLedger(std::move(committed));
  } else if (execution_->ledger_row_begun() || MayContradictLedger() || RecordsRefusal()) {
    LookUpCommit();
  } else {
    Dispose(DispositionByPolicy());
  }
}

void Settlement::LookUpCommit() {
  const GuardedOperation& operation = execution_->operation();
  {
    MutexLock lock(mutex_);
    caller_timer_ = operation.reservations.scheduler().RunAtOrWhenStopped(
        After(operation.reservations.Now(), operation.options.recording_timeout),
        [self = shared_from_this()] {
          self->Finish(
              {NotRecorded("the operation finished, but the completion ledger cannot be queried "
                           "yet: call again with the same idempotency key")});
        });
  }
  // Heartbeats continue meanwhile.
  LedgerLookup::Run(execution_, Scheduler::Time::max(),
                    [self = shared_from_this()](const LedgerLookup::Answer& committed) {
                      self->OnLedger(committed);
                    });
}

void Settlement::OnLedger(const LedgerLookup::Answer& committed) {
  const std::string& name = execution_->operation().name;
  GuardLog& log = *execution_->operation().log;
  if (ReasonOf(committed.status()) == Reason::kStoreUnavailable) {
    // The reservation is lost, or the guard stops: the next attempt finds out.
    instead_ = NotRecorded(
        "the operation finished, but the completion ledger could not be queried: call again with "
        "the same idempotency key");
    Dispose(Disposition::kLetLapse);
  } else if (!committed.ok()) {
    Abandon(committed.status());
  } else if (committed->has_value()) {
    if (!SameOutcome(*reply_, **committed)) {
      log.Warn(LogEvent::kLedgerDisagrees, name,
               ": the handler's reply differs from the committed reply, record ",
               execution_->record_id());
      instead_ = AnsweredByLedger();
      *reply_ = **committed;
    } else if (commit_acknowledged_) {
      AnswerAhead();
    }
    Dispose(Disposition::kComplete);
  } else if (code_ == grpc::StatusCode::OK || MayContradictLedger() || MayStillCommit()) {
    OnNotCommitted();
  } else {
    Dispose(DispositionByPolicy());
  }
}

void Settlement::OnNotCommitted() {
  const GuardedOperation& operation = execution_->operation();
  const bool begun = execution_->ledger_row_begun();
  operation.log->Error(LogEvent::kLedgerDisagrees, operation.name, ": the handler returned ",
                       StatusCodeName(code_), WhyNotCommitted(), ", attempt ",
                       execution_->attempt(), ", record ", execution_->record_id());
  // The OK of a method that may not use the ledger at all is its outcome: its effects are
  // elsewhere, and no row would stop the next attempt. relaxed_reservation is for methods that do
  // use it.
  if (code_ == grpc::StatusCode::OK && !begun && !operation.policy.relaxed_reservation) {
    Dispose(DispositionByPolicy());
    return;
  }
  Abandon(NotRecorded("the operation was not committed: call again with the same idempotency key"));
}

const char* Settlement::WhyNotCommitted() const {
  if (MayStillCommit()) return ", but its commit got no answer, and may still succeed";
  if (execution_->ledger_row_begun()) {
    return ", but the row of RecordInTransaction is not committed";
  }
  return " and committed nothing in the completion ledger, although another attempt may commit. "
         "Call Commit for every outcome, also for a refusal, unless certainly_first(); give a "
         "method that does not use the ledger a choice of its own (on_lease_expiry in its proto, "
         "MethodPolicy::on_unknown_outcome in C++)";
}

void Settlement::AnswerAhead() {
  if (reply_->ByteSizeLong() > limits::kMaxReplyAheadBytes) return;
  Places::Place place = execution_->operation().reservations.replies_ahead().TryTake();
  if (place == nullptr) return;
  Done done;
  {
    MutexLock lock(mutex_);
    done.swap(done_);
  }
  // Recording may continue after its answer.
  execution_->reservation()->KeepUntilEnd(std::move(place));
  Outcome ahead;
  ahead.expires_at = execution_->expires_at();
  done(ahead);
}

void Settlement::Abandon(const absl::Status& why) {
  instead_ = why;
  Dispose(execution_->operation().on_unknown == UnknownOutcome::kRecover
              ? Disposition::kReleaseUnknown
              : Disposition::kReleaseLater);
}

bool Settlement::LedgerDecides() const {
  const GuardedOperation& operation = execution_->operation();
  return operation.on_unknown == UnknownOutcome::kLookUpLedger &&
         operation.options.ledger != nullptr && DispositionByPolicy() == Disposition::kComplete;
}

bool Settlement::MayContradictLedger() const {
  return LedgerDecides() && !execution_->certainly_first();
}

bool Settlement::RecordsRefusal() const { return LedgerDecides() && code_ != grpc::StatusCode::OK; }

bool Settlement::MayStillCommit() const {
  if (!execution_->commit_in_doubt()) return false;
  const Disposition disposition = DispositionByPolicy();
  return disposition == Disposition::kComplete || disposition == Disposition::kRelease;
}

Disposition Settlement::DispositionByPolicy() const {
  const GuardedOperation& operation = execution_->operation();
  return DispositionFor(operation.policy, operation.on_unknown, deciding_code_,
                        execution_->no_effect());
}

void Settlement::LogPassedOn() const {
  const GuardedOperation& operation = execution_->operation();
  if (deciding_code_ == code_ || !IsRecorded(operation.policy, code_)) return;
  operation.log->Error(LogEvent::kNotRecorded, operation.name, ": record ", execution_->record_id(),
                       ": the handler answered ", StatusCodeName(code_),
                       " with a reason of this library (ErrorInfo of ", AbslView(kErrorDomain),
                       "), as an error of another guard has it, which is no outcome of this "
                       "operation: it is not recorded. Answer with a status of the handler's own");
}

void Settlement::Dispose(Disposition disposition) {
  const absl::Status loss = execution_->reservation()->loss();
  superseded_ = !loss.ok() && !IsRecordGone(loss);
  {
    MutexLock lock(mutex_);
    disposition_ = disposition;
  }
  switch (disposition) {
    case Disposition::kComplete:
      Record();
      return;
    case Disposition::kRelease:
      Release(disposition, v1::RELEASE_OUTCOME_NOTHING_HAPPENED);
      return;
    case Disposition::kReleaseLater:
      Release(disposition, v1::RELEASE_OUTCOME_NOTHING_HAPPENED,
              ReleasePause(execution_->attempt()));
      return;
    case Disposition::kReleaseUnknown:
      Release(disposition, v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN);
      return;
    case Disposition::kLetLapse:
      execution_->reservation()->LetLapse();
      Finish({LossIfRefused(disposition)});
      return;
  }
}

void Settlement::Record() {
  ReduceToStored(*execution_, *reply_);
  execution_->reservation()->Complete(
      std::move(reply_),
      [self = shared_from_this()](const auto& answer) { self->OnCompleted(answer); });
}

void Settlement::Release(Disposition disposition, v1::ReleaseOutcome released,
                         absl::Duration pause) {
  if (release_reason_.empty()) release_reason_ = HandlersAnswer();
  execution_->reservation()->Release(
      release_reason_, released,
      [self = shared_from_this(), disposition] {
        Outcome outcome;
        outcome.error = self->LossIfRefused(disposition);
        outcome.release = self->execution_->reservation()->release_answer();
        self->Finish(outcome);
      },
      pause);
}

std::string Settlement::HandlersAnswer() const {
  std::string answer = "the handler answered " + StatusCodeName(code_);
  // The codes that gRPC returns for a handler that threw, in the sync and the callback API.
  if (code_ == grpc::StatusCode::UNKNOWN || code_ == grpc::StatusCode::UNIMPLEMENTED) {
    answer += ", or threw";
  }
  return answer;
}

absl::Status Settlement::LossIfRefused(Disposition disposition) const {
  const absl::Status loss = execution_->reservation()->loss();
  if (loss.ok()) return instead_;
  // A failure must not count as the operation's: another attempt decides.
  if (!IsRecordGone(loss)) return loss;
  // Nothing happened: a retry may run. An attempt that had taken over may have done something.
  if (disposition == Disposition::kRelease && !superseded_) return instead_;
  // The ledger has a row, or refuses a second effect: a retry gets its outcome.
  const bool ledger = execution_->operation().on_unknown == UnknownOutcome::kLookUpLedger;
  if (ledger) return ReservationLost();
  return superseded_ ? SupersededAndGone() : loss;
}

void Settlement::OnCompleted(const absl::StatusOr<v1::CompleteResponse>& answer) {
  if (answer.ok()) {
    Outcome outcome;
    outcome.error = instead_;
    outcome.expires_at =
        answer->has_expires_at() ? FromWire(answer->expires_at()) : execution_->expires_at();
    Finish(outcome);
    return;
  }
  execution_->operation().log->Error(LogEvent::kNotRecorded, execution_->operation().name,
                                     ": record ", execution_->record_id(), ": ",
                                     answer.status().message());
  Outcome outcome;
  if (!IsRecordGone(answer.status())) {
    outcome.error = answer.status();
  } else if (superseded_) {
    outcome.error = SupersededAndGone();
  } else {
    outcome.error = instead_;
    outcome.unrecorded = answer.status();
  }
  Finish(outcome);
}

void Settlement::Finish(const Outcome& outcome) {
  Done done;
  Disposition disposition;
  {
    MutexLock lock(mutex_);
    if (std::exchange(reported_, true)) return;
    done.swap(done_);
    disposition = disposition_;
    execution_->operation().reservations.scheduler().Cancel(caller_timer_);
  }
  const GuardedOperation& operation = execution_->operation();
  const absl::Status& recorded = outcome.error.ok() ? outcome.unrecorded : outcome.error;
  if (span_.has_value()) {
    span_->Set("idempotency.record_id", execution_->record_id());
    span_->Set("idempotency.attempt", static_cast<std::int64_t>(execution_->attempt()));
    span_->Set("idempotency.disposition", DispositionName(disposition));
    std::move(*span_).End(operation, recorded);
  }
  if (operation.options.hooks.on_recorded) {
    CallHook(*operation.log, operation.options.hooks.on_recorded,
             RecordedEvent{{operation.name, execution_->record_id(), execution_->attempt(),
                            TraceparentOf(execution_->reserve_request().labels())},
                           code_,
                           disposition,
                           recorded});
  }
  if (done != nullptr) done(outcome);
}

}  // namespace idempotency::internal
