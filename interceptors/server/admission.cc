#include "interceptors/server/admission.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "core/errors.h"
#include "interceptors/server/record_metadata.h"
#include "interceptors/server/recoverer.h"
#include "interceptors/server/rejection.h"
#include "interceptors/server/wire_time.h"

namespace idempotency {
namespace {

v1::LeaseExpiry ToWire(MethodPolicy::OnLeaseExpiry on_lease_expiry) {
  return on_lease_expiry == MethodPolicy::OnLeaseExpiry::kRequireRecovery
             ? v1::LEASE_EXPIRY_REQUIRE_RECOVERY
             : v1::LEASE_EXPIRY_TAKE_OVER;
}

void Apply(const GuardedOperation& operation, v1::ReserveRequest& question) {
  const MethodPolicy& policy = operation.policy;
  *question.mutable_lease() = idempotency::ToWire(policy.lease);
  *question.mutable_retention() = idempotency::ToWire(policy.retention);
  question.set_on_lease_expiry(ToWire(policy.on_lease_expiry));
  question.set_recover(operation.recovery != nullptr);
}

// The owner of the execution hears of it by what it watches itself.
void WatchForLoss(const LiveExecution& execution) {
  execution.recording()->OnLost([operation = execution.shared_operation(),
                                 record_id = execution.record_id(), attempt = execution.attempt()] {
    spdlog::warn("{}: attempt {} lost its reservation, record {}", operation->name, attempt,
                 record_id);
  });
}

}  // namespace

void Admission::Ask(std::shared_ptr<const GuardedOperation> operation, v1::ReserveRequest question,
                    Scheduler::Time deadline, Done done, const google::protobuf::Message* request) {
  struct Concrete : Admission {
    Concrete(std::shared_ptr<const GuardedOperation> o, v1::ReserveRequest q, Done d,
             const google::protobuf::Message* r)
        : Admission(std::move(o), std::move(q), std::move(d), r) {}
  };
  Apply(*operation, question);
  const auto admission = std::make_shared<Concrete>(std::move(operation), std::move(question),
                                                    std::move(done), request);
  admission->operation_->reservations.Request(
      admission->question_, admission->operation_->policy.WaitInFlight(), deadline,
      [admission](const absl::StatusOr<ReservationAnswer>& answer) {
        admission->OnVerdict(answer);
      });
}

Admission::Admission(std::shared_ptr<const GuardedOperation> operation, v1::ReserveRequest question,
                     Done done, const google::protobuf::Message* request)
    : operation_(std::move(operation)),
      question_(std::move(question)),
      done_(std::move(done)),
      request_(request) {}

void Admission::OnVerdict(const absl::StatusOr<ReservationAnswer>& answer) {
  if (!answer.ok()) {
    const bool no_verdict = ReasonOf(answer.status()) == Reason::kStoreUnavailable &&
                            !operation_->reservations.closed();
    done_(Refused{answer.status(), /*record_id=*/"", no_verdict});
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
    if (verdict.has_outcome_unknown() && operation_->recoverer != nullptr) {
      operation_->recoverer->Note(operation_, question_);
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
  grant.max_lease = operation_->policy.max_lease;
  grant.lease_deadline =
      answer.sent + absl::ToChronoNanoseconds(FromWire(reserved.lease_remaining()));
  auto execution = std::make_shared<LiveExecution>(operation_, question_, answer.response,
                                                   operation_->reservations.Hold(std::move(grant)));
  WatchForLoss(*execution);
  LookBack(std::move(execution));
}

void Admission::LookBack(std::shared_ptr<LiveExecution> execution) {
  if (!execution->grant().recovering()) {
    done_(Granted{std::move(execution)});
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
    Replay(completed->reply, execution->record_id(), completed->expires_at);
  } else if (const auto* open = std::get_if<Recovery::Open>(&result)) {
    if (operation_->recoverer != nullptr) operation_->recoverer->Note(operation_, question_);
    Refuse(open->why, execution->record_id());
  } else if (execution->lost()) {
    // What the handler is to run under is gone.
    execution->recording()->Release("lost while it was recovered",
                                    v1::RELEASE_OUTCOME_NOTHING_HAPPENED, [] {});
    Refuse(ReservationLost(), execution->record_id());
  } else {
    done_(Granted{std::move(execution)});
  }
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
