#include "interceptors/server/admission.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "interceptors/server/guard_hooks.h"
#include "interceptors/server/rejection.h"
#include "interceptors/server/replayed_reply.h"
#include "interceptors/server/traceparent.h"
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

VerdictEvent::Verdict VerdictOf(const v1::ReserveResponse& verdict) {
  switch (verdict.verdict_case()) {
    case v1::ReserveResponse::kReserved:
      return VerdictEvent::Verdict::kReserved;
    case v1::ReserveResponse::kReplay:
      return VerdictEvent::Verdict::kReplay;
    case v1::ReserveResponse::kInFlight:
      return VerdictEvent::Verdict::kInFlight;
    case v1::ReserveResponse::kMismatch:
      return VerdictEvent::Verdict::kMismatch;
    case v1::ReserveResponse::kOutcomeUnknown:
      return VerdictEvent::Verdict::kOutcomeUnknown;
    case v1::ReserveResponse::kExpired:
      return VerdictEvent::Verdict::kExpired;
    case v1::ReserveResponse::VERDICT_NOT_SET:
      break;
  }
  return VerdictEvent::Verdict::kNone;
}

// Of the verdict that is set; the others are empty.
std::uint32_t AttemptOf(const v1::ReserveResponse& verdict) {
  return std::max({verdict.reserved().attempt(), verdict.replay().attempt(),
                   verdict.in_flight().attempt(), verdict.mismatch().attempt(),
                   verdict.outcome_unknown().attempt()});
}

}  // namespace

void Admission::Ask(std::shared_ptr<const GuardedOperation> operation, v1::ReserveRequest question,
                    Scheduler::Time deadline, Done done) {
  struct Concrete : Admission {
    Concrete(std::shared_ptr<const GuardedOperation> o, v1::ReserveRequest q, Done d)
        : Admission(std::move(o), std::move(q), std::move(d)) {}
  };
  ApplyPolicy(operation->policy, question);
  const auto admission =
      std::make_shared<Concrete>(std::move(operation), std::move(question), std::move(done));
  admission->operation_->reservations.Request(
      admission->question_, admission->operation_->policy.WaitInFlight(), deadline,
      [admission](const absl::StatusOr<ReservationAnswer>& answer) {
        admission->OnVerdict(answer);
      });
}

Admission::Admission(std::shared_ptr<const GuardedOperation> operation, v1::ReserveRequest question,
                     Done done)
    : operation_(std::move(operation)), question_(std::move(question)), done_(std::move(done)) {}

void Admission::Tell(const absl::StatusOr<ReservationAnswer>& answer,
                     const absl::Status& why) const {
  const v1::ReserveResponse& verdict =
      answer.ok() ? answer->response : v1::ReserveResponse::default_instance();
  Call(operation_->options.hooks.on_verdict,
       {{operation_->name, verdict.record_id(), AttemptOf(verdict),
         TraceparentOf(question_.labels())},
        VerdictOf(verdict),
        why,
        TraceparentOf(verdict.replay().labels())});
}

void Admission::OnVerdict(const absl::StatusOr<ReservationAnswer>& answer) {
  if (!answer.ok()) {
    Tell(answer, answer.status());
    Refuse(answer.status());
    return;
  }
  const v1::ReserveResponse& verdict = answer->response;
  const absl::Status rejection = RejectionFor(verdict);
  Tell(answer, rejection);
  if (!rejection.ok()) {
    if (verdict.has_mismatch()) {
      // A client's bug. The record's id leads to it; the key stays out of logs.
      spdlog::warn("{}: key reused with a different request, record {}", operation_->name,
                   verdict.record_id());
    }
    Refuse(rejection, verdict.record_id());
  } else if (verdict.has_replay()) {
    Replay(verdict);
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
  done_(Granted{std::make_shared<LiveExecution>(operation_, question_, answer.response,
                                                operation_->reservations.Hold(std::move(grant)))});
}

void Admission::Replay(const v1::ReserveResponse& verdict) {
  ReplayedReply::Make(operation_, verdict,
                      [self = shared_from_this(),
                       record_id = verdict.record_id()](absl::StatusOr<v1::Reply> reply) {
                        if (reply.ok()) {
                          self->done_(Replayed{*std::move(reply)});
                        } else {
                          self->Refuse(reply.status(), record_id);
                        }
                      });
}

void Admission::Refuse(const absl::Status& why, std::string record_id) {
  done_(Refused{why, std::move(record_id)});
}

}  // namespace idempotency
