#include "interceptors/server/admission.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "interceptors/server/ledger/ledger_inquiry.h"
#include "interceptors/server/record_metadata.h"
#include "interceptors/server/rejection.h"
#include "interceptors/server/settlement.h"
#include "interceptors/server/wire_time.h"

namespace idempotency {
namespace {

v1::LeaseExpiry ToWire(MethodPolicy::OnLeaseExpiry on_lease_expiry) {
  return on_lease_expiry == MethodPolicy::OnLeaseExpiry::kRequireRecovery
             ? v1::LEASE_EXPIRY_REQUIRE_RECOVERY
             : v1::LEASE_EXPIRY_TAKE_OVER;
}

void ApplyPolicy(const MethodPolicy& policy, v1::ReserveRequest& question) {
  *question.mutable_lease() = idempotency::ToWire(policy.lease);
  *question.mutable_retention() = idempotency::ToWire(policy.retention);
  question.set_on_lease_expiry(ToWire(policy.on_lease_expiry));
}

}  // namespace

void Admission::Ask(std::shared_ptr<const GuardedOperation> operation, v1::ReserveRequest question,
                    Scheduler::Time deadline, Done done) {
  struct Concrete : Admission {
    Concrete(std::shared_ptr<const GuardedOperation> o, v1::ReserveRequest q, Scheduler::Time t,
             Done d)
        : Admission(std::move(o), std::move(q), t, std::move(d)) {}
  };
  ApplyPolicy(operation->policy, question);
  // With a ledger an unknown outcome can be found out.
  if (operation->options.ledger != nullptr) question.set_recover(true);
  const auto admission = std::make_shared<Concrete>(std::move(operation), std::move(question),
                                                    deadline, std::move(done));
  admission->operation_->reservations.Request(
      admission->question_, admission->operation_->policy.WaitInFlight(), deadline,
      [admission](const absl::StatusOr<ReservationAnswer>& answer) {
        admission->OnVerdict(answer);
      });
}

Admission::Admission(std::shared_ptr<const GuardedOperation> operation, v1::ReserveRequest question,
                     Scheduler::Time deadline, Done done)
    : operation_(std::move(operation)),
      question_(std::move(question)),
      deadline_(deadline),
      done_(std::move(done)) {}

void Admission::OnVerdict(const absl::StatusOr<ReservationAnswer>& answer) {
  if (!answer.ok()) {
    Refuse(answer.status());
    return;
  }
  const v1::ReserveResponse& verdict = answer->response;
  const absl::Status rejection = RejectionFor(verdict);
  if (!rejection.ok()) {
    if (verdict.has_mismatch()) {
      // A client's bug. The record's id leads to it; the key stays out of logs.
      spdlog::warn("{}: key reused with a different request, record {}", operation_->name,
                   verdict.record_id());
    }
    Refuse(rejection, verdict.record_id());
  } else if (verdict.has_replay()) {
    Replay(verdict.replay().reply(), verdict.record_id(), FromWire(verdict.replay().expires_at()));
  } else {
    Grant(*answer);
  }
}

void Admission::Grant(const ReservationAnswer& answer) {
  const v1::Reserved& reserved = answer.response.reserved();
  Recording::Grant grant;
  grant.record_key = question_.record_key();
  grant.reservation_token = reserved.reservation_token();
  grant.lease = operation_->policy.lease;
  grant.lease_deadline =
      answer.sent + absl::ToChronoNanoseconds(FromWire(reserved.lease_remaining()));
  const auto execution = std::make_shared<LiveExecution>(
      operation_, question_, answer.response, operation_->reservations.Hold(std::move(grant)));
  if (operation_->options.ledger != nullptr && reserved.attempt() > 1) {
    ConsultLedger(execution);
  } else {
    Admit(execution);
  }
}

void Admission::ConsultLedger(const std::shared_ptr<LiveExecution>& execution) {
  LedgerInquiry::Ask(execution, deadline_,
                     [self = shared_from_this(), execution](LedgerInquiry::Answer committed) {
                       if (!committed.ok()) {
                         self->GiveBack(execution, "the completion ledger gave no answer to run on",
                                        committed.status());
                       } else if (committed->has_value()) {
                         self->Finish(execution, **committed);
                       } else {
                         self->Admit(execution);
                       }
                     });
}

void Admission::Admit(const std::shared_ptr<LiveExecution>& execution) {
  if (execution->grant().recovering()) {
    GiveBack(execution, "the outcome could not be found out", OutcomeUnknownRejection());
    return;
  }
  done_(Granted{execution});
}

void Admission::Finish(const std::shared_ptr<LiveExecution>& execution, const v1::Reply& reply) {
  spdlog::info("{}: an earlier attempt had committed, record {}", operation_->name,
               execution->record_id());
  Settlement::Complete(
      execution, reply,
      [self = shared_from_this(), execution, reply](const Settlement::Outcome& outcome) {
        if (outcome.error.ok()) {
          self->Replay(reply, execution->record_id(), outcome.expires_at);
        } else {
          self->Refuse(outcome.error, execution->record_id());
        }
      });
}

void Admission::GiveBack(const std::shared_ptr<LiveExecution>& execution, const std::string& reason,
                         const absl::Status& why) {
  execution->recording()->Release(reason,
                                  execution->grant().recovering()
                                      ? v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN
                                      : v1::RELEASE_OUTCOME_NOTHING_HAPPENED,
                                  [] {});
  Refuse(why, execution->record_id());
}

void Admission::Replay(v1::Reply reply, const std::string& record_id, absl::Time expires_at) {
  for (auto& [key, value] : RecordMetadata(record_id, expires_at, /*replayed=*/true)) {
    v1::MetadataEntry& entry = *reply.add_trailing_metadata();
    entry.set_key(std::move(key));
    entry.set_value(std::move(value));
  }
  done_(Replayed{std::move(reply)});
}

void Admission::Refuse(const absl::Status& why, std::string record_id) {
  done_(Refused{why, std::move(record_id)});
}

}  // namespace idempotency
