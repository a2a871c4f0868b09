#include "interceptors/server/admission/admission.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/answer_kind.h"
#include "core/request_rules.h"
#include "core/wire_time.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/server_guard/guard_hooks.h"
#include "grpc_idempotency/uuid.h"
#include "interceptors/server/admission/rejection.h"
#include "interceptors/server/admission/replayed_reply.h"
#include "interceptors/server/execution/hook_call.h"
#include "interceptors/server/execution/ledger_lookup.h"
#include "interceptors/server/execution/settlement.h"
#include "interceptors/server/wire/record_metadata.h"
#include "interceptors/server/wire/traceparent.h"

namespace idempotency::internal {
namespace {

void Apply(const GuardedOperation& operation, v1::ReserveRequest& reserve_request) {
  const MethodPolicy& policy = operation.policy;
  // A new token for each call, also for a repeated request; known here, so that a grant can be
  // requested again.
  reserve_request.set_request_token(Uuid::Random().ToString());
  if (const absl::Duration wait = policy.WaitInFlight(); wait > absl::ZeroDuration()) {
    ToWire(wait, *reserve_request.mutable_max_wait());
  } else {
    reserve_request.clear_max_wait();
  }
  ToWire(policy.lease, *reserve_request.mutable_lease());
  ToWire(policy.retention, *reserve_request.mutable_retention());
  if (policy.reply_retention) {
    ToWire(*policy.reply_retention, *reserve_request.mutable_reply_retention());
  }
  if (policy.tombstone > absl::ZeroDuration()) {
    ToWire(policy.tombstone, *reserve_request.mutable_tombstone());
  }
  reserve_request.set_on_lease_expiry(LeaseExpiryFor(operation.on_unknown));
  reserve_request.set_relaxed(policy.relaxed_reservation);
  // It can find out what an attempt without an answer has done. A ledger can only once it has a
  // row: without one the grant would take the token of an attempt that may still answer.
  reserve_request.set_recover(operation.recovery != nullptr);
}

void ReportUnknownOutcome(const std::shared_ptr<const GuardedOperation>& operation,
                          const v1::ReserveRequest& reserve_request) {
  if (operation->unknown_outcomes == nullptr) return;
  operation->unknown_outcomes->Add(operation, reserve_request);
}

// The reason of a release, for `explain`. Without a caller's data.
std::string NoReplyOfLedger(const absl::Status& lookup) {
  const std::optional<Reason> reason = ReasonOf(lookup);
  if (!reason.has_value() || *reason == Reason::kStoreUnavailable) {
    return "the completion ledger did not answer";
  }
  return absl::StrCat("the completion ledger's row is no answer to this request: ",
                      AbslView(ReasonName(*reason)));
}

void WatchForLoss(const LiveExecution& execution) {
  // Not the execution itself, which holds the recording.
  execution.reservation()->OnLost([operation =
                                       execution.shared_operation()](const Reservation& lost) {
    const std::string& record_id = lost.answer().record_id();
    const std::uint32_t attempt = lost.answer().reserved().attempt();
    operation->log->Warn(LogEvent::kReservationLost, operation->name, ": attempt ", attempt,
                         " lost its reservation, record ", record_id);
    if (!operation->options.hooks.on_lost) return;
    CallHook(
        *operation->log, operation->options.hooks.on_lost,
        LostEvent{{operation->name, record_id, attempt, TraceparentOf(lost.request().labels())}});
  });
}

}  // namespace

void Admission::Admit(std::shared_ptr<const GuardedOperation> operation,
                      std::shared_ptr<v1::ReserveRequest> reserve_request, Scheduler::Time deadline,
                      Done done, const google::protobuf::Message* request,
                      std::shared_ptr<const UnguardedRun> unguarded) {
  // The store's answer, if it is known: then the terms of a new reservation are not needed.
  const auto known = operation->reservations.FindReplay(*reserve_request);
  if (known == nullptr) Apply(*operation, *reserve_request);
  const auto admission = std::make_shared<Admission>(
      PassKey<Admission>(), std::move(operation), std::move(reserve_request), deadline,
      std::move(done), request, std::move(unguarded));
  if (known != nullptr) return admission->ReplayKnown(known);
  // Checks the caller's data in the request: a request that the service would refuse must not
  // be sent, above all not together with the requests of other callers.
  if (const absl::Status valid = ValidateRequest(*admission->reserve_request_); !valid.ok()) {
    admission->report_.Once(v1::ReserveResponse::default_instance(), valid);
    admission->Refuse(valid);
    return;
  }
  admission->Request(admission->operation_->policy.WaitInFlight(), deadline);
}

void Admission::Request(absl::Duration max_wait, Scheduler::Time deadline) {
  std::shared_ptr<const v1::ReserveRequest> request = reserve_request_;
  if (!report_.span_traceparent().empty()) {
    const auto traced = std::make_shared<v1::ReserveRequest>(*reserve_request_);
    (*traced->mutable_labels())[std::string(kTraceparentName)] = report_.span_traceparent();
    request = traced;
  }
  operation_->reservations.Request(
      std::move(request), max_wait, deadline,
      [self = shared_from_this()](auto answer) { self->OnVerdict(std::move(answer)); },
      AbandonedGrant{unguarded_, UnknownOutcomeReporter()});
}

Admission::Admission(PassKey<Admission> /*key*/, std::shared_ptr<const GuardedOperation> operation,
                     std::shared_ptr<const v1::ReserveRequest> reserve_request,
                     Scheduler::Time deadline, Done done, const google::protobuf::Message* request,
                     std::shared_ptr<const UnguardedRun> unguarded)
    : operation_(std::move(operation)),
      reserve_request_(std::move(reserve_request)),
      deadline_(deadline),
      done_(std::move(done)),
      request_(request),
      unguarded_(std::move(unguarded)),
      report_(*operation_, TraceparentOf(reserve_request_->labels())) {}

void Admission::OnVerdict(absl::StatusOr<ReserveAnswer> answer) {
  if (!answer.ok()) {
    const bool no_verdict = !had_verdict_ && KindOfAnswer(answer.status()) == AnswerKind::kNone &&
                            !operation_->reservations.closed();
    report_.Once(v1::ReserveResponse::default_instance(), answer.status());
    done_(Refused{answer.status(), /*record_id=*/"", no_verdict});
    return;
  }
  had_verdict_ = true;
  const bool looks_up = answer->response->has_outcome_unknown() &&
                        operation_->options.ledger != nullptr && !reserve_request_->recover();
  if (looks_up) {
    LookUpCommit(*std::move(answer));
  } else {
    ActOnVerdict(*std::move(answer));
  }
}

void Admission::LookUpCommit(ReserveAnswer answer) {
  LedgerLookup::Run(operation_, reserve_request_, deadline_,
                    [self = shared_from_this(),
                     answer = std::move(answer)](const LedgerLookup::Answer& committed) mutable {
                      if (!committed.ok()) {
                        self->LeaveUnknown(*answer.response, committed.status());
                      } else if (committed->has_value()) {
                        self->RequestRecovery();
                      } else {
                        self->ActOnVerdict(std::move(answer));
                      }
                    });
}

void Admission::LeaveUnknown(const v1::ReserveResponse& verdict, const absl::Status& why) {
  report_.Once(verdict, RejectionFor(verdict));
  ReportUnknownOutcome(operation_, *reserve_request_);
  Refuse(why, verdict.record_id());
}

void Admission::RequestRecovery() {
  const auto recovering = std::make_shared<v1::ReserveRequest>(*reserve_request_);
  recovering->set_recover(true);
  reserve_request_ = recovering;
  Request(/*max_wait=*/absl::ZeroDuration(), deadline_);
}

void Admission::ActOnVerdict(ReserveAnswer answer) {
  const v1::ReserveResponse& verdict = *answer.response;
  const absl::Status rejection = RejectionFor(verdict);
  report_.Once(verdict, rejection);
  if (!rejection.ok()) {
    if (verdict.has_mismatch()) {
      // A client's bug. The record's id identifies it; the key must not be logged.
      operation_->log->Warn(LogEvent::kKeyReused, operation_->name,
                            ": key reused with a different request, record ", verdict.record_id());
    }
    if (verdict.has_outcome_unknown()) ReportUnknownOutcome(operation_, *reserve_request_);
    Refuse(rejection, verdict.record_id());
  } else if (verdict.has_replay()) {
    Replay(answer.response);
  } else {
    Grant(std::move(answer));
  }
}

void Admission::ReplayKnown(const std::shared_ptr<const v1::ReserveResponse>& verdict) {
  report_.Once(*verdict, RejectionFor(*verdict));
  Replay(verdict);
}

void Admission::Grant(ReserveAnswer answer) {
  const v1::Reserved& reserved = answer.response->reserved();
  Reservation::Grant grant;
  grant.request = reserve_request_;
  grant.lease = operation_->policy.lease;
  grant.max_lease = operation_->policy.max_lease;
  grant.lease_deadline = After(answer.sent, FromWire(reserved.lease_remaining()));
  grant.answer = std::move(answer.response);
  const std::shared_ptr<Reservation> reservation = operation_->reservations.Hold(std::move(grant));
  reservation->OnLeftOpen(UnknownOutcomeReporter());
  auto execution = std::make_shared<LiveExecution>(operation_, reservation);
  WatchForLoss(*execution);
  if (execution->reserved().reservation_token() == cleared_token_) {
    reservation->NoteRecovered();
    Start(std::move(execution));
  } else if (operation_->options.ledger != nullptr && execution->attempt() > 1) {
    LookUpBeforeRun(execution);
  } else {
    Recover(std::move(execution));
  }
}

Reservation::LeftOpen Admission::UnknownOutcomeReporter() const {
  if (operation_->unknown_outcomes == nullptr) return nullptr;
  return [operation = operation_](const v1::ReserveRequest& request) {
    ReportUnknownOutcome(operation, request);
  };
}

void Admission::LookUpBeforeRun(const std::shared_ptr<LiveExecution>& execution) {
  LedgerLookup::Run(
      execution, deadline_, [self = shared_from_this(), execution](LedgerLookup::Answer committed) {
        if (!committed.ok()) {
          self->GiveBack(execution, NoReplyOfLedger(committed.status()), committed.status());
        } else if (committed->has_value()) {
          self->RecordCommitted(execution, **committed);
        } else {
          self->Recover(execution);
        }
      });
}

void Admission::RecordCommitted(const std::shared_ptr<LiveExecution>& execution,
                                const v1::Reply& reply) {
  operation_->log->Info(LogEvent::kFoundInLedger, operation_->name,
                        ": an earlier attempt had committed, record ", execution->record_id());
  Settlement::Complete(
      execution, std::make_unique<v1::Reply>(reply),
      [self = shared_from_this(), execution,
       reply = std::make_shared<const v1::Reply>(reply)](const Settlement::Outcome& outcome) {
        if (outcome.error.ok()) {
          self->Replay(reply, execution->record_id(), outcome.expires_at,
                       execution->reserved().labels());
        } else {
          self->Refuse(outcome.error, execution->record_id());
        }
      });
}

void Admission::GiveBack(const std::shared_ptr<LiveExecution>& execution, const std::string& reason,
                         const absl::Status& why) {
  execution->reservation()->GiveBack(reason, [] {});
  Refuse(why, execution->record_id());
}

void Admission::Recover(std::shared_ptr<LiveExecution> execution) {
  if (!execution->reserved().recovering()) {
    Start(std::move(execution));
    return;
  }
  if (operation_->recovery == nullptr) {
    const std::string reason =
        "the completion ledger has no reply, and there is no recovery handler";
    GiveBack(execution, reason, OutcomeUndecided(execution->attempt(), reason));
    return;
  }
  Recovery::Run(execution, request_,
                [self = shared_from_this(), execution](const Recovery::Result& result) {
                  self->OnRecovered(execution, result);
                });
}

void Admission::OnRecovered(std::shared_ptr<LiveExecution> execution,
                            const Recovery::Result& result) {
  if (const auto* completed = std::get_if<Recovery::Completed>(&result)) {
    if (!completed->unrecorded.ok() && completed->reply.code() != 0) {
      SendUnrecorded(completed->reply, execution->record_id());
      return;
    }
    Replay(std::make_shared<const v1::Reply>(completed->reply), execution->record_id(),
           completed->expires_at, execution->reserved().labels());
  } else if (const auto* open = std::get_if<Recovery::Open>(&result)) {
    Refuse(open->why, execution->record_id());
  } else {
    execution->reservation()->NoteRecovered();
    Start(std::move(execution));
  }
}

void Admission::SendUnrecorded(const v1::Reply& failure, const std::string& record_id) {
  MetadataEntries trailers = RecordMetadata(record_id, absl::InfinitePast(), /*replayed=*/false);
  trailers.emplace_back(kPushbackMetadata, kNoRetryPushback);
  done_(Replayed{SentReply(std::make_shared<const v1::Reply>(failure), std::move(trailers))});
}

void Admission::Start(std::shared_ptr<LiveExecution> execution) {
  if (!execution->lost()) {
    // A recovery or a lookup may end after Close(), inside the guard's destructor even: what starts
    // then would use a destroyed guard.
    if (operation_->reservations.closed()) {
      GiveBack(execution, "the guard was closed before the handler ran", Closed());
      return;
    }
    done_(Granted{std::move(execution)});
    return;
  }
  operation_->log->Warn(
      LogEvent::kLateGrant, operation_->name, ": the lease of attempt ", execution->attempt(),
      " expired before its handler could start; reserving again, record ", execution->record_id());
  // The same token renews the lease if no other attempt has taken over; then the results
  // obtained under this grant are still valid.
  cleared_token_ = execution->reserved().reservation_token();
  execution->reservation()->LetLapse();
  Request(/*max_wait=*/absl::ZeroDuration(),
          std::max(deadline_,
                   After(operation_->reservations.Now(), operation_->options.verdict_timeout)));
}

void Admission::Replay(const std::shared_ptr<const v1::ReserveResponse>& verdict) {
  const v1::Replay& replay = verdict->replay();
  Replay(std::shared_ptr<const v1::Reply>(verdict, &replay.reply()), verdict->record_id(),
         FromWire(replay.expires_at()), replay.labels());
}

void Admission::Replay(std::shared_ptr<const v1::Reply> reply, const std::string& record_id,
                       absl::Time expires_at, const Labels& labels) {
  ReplayedReply::Make(operation_, {std::move(reply), record_id, expires_at, TraceparentOf(labels)},
                      [self = shared_from_this(), record_id](absl::StatusOr<SentReply> made) {
                        if (made.ok()) {
                          self->done_(Replayed{*std::move(made)});
                        } else {
                          self->Refuse(made.status(), record_id);
                        }
                      });
}

void Admission::Refuse(const absl::Status& why, std::string record_id) {
  done_(Refused{why, std::move(record_id)});
}

}  // namespace idempotency::internal
