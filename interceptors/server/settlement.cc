#include "interceptors/server/settlement.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "core/errors.h"
#include "core/reply.h"
#include "interceptors/server/guard_hooks.h"
#include "interceptors/server/recoverer.h"
#include "interceptors/server/traceparent.h"
#include "interceptors/server/wire_time.h"

namespace idempotency {

void Settlement::Settle(std::shared_ptr<LiveExecution> execution, v1::Reply reply, Done done) {
  Make(std::move(execution), std::move(reply), std::move(done))->Start();
}

void Settlement::GiveBack(std::shared_ptr<LiveExecution> execution, std::string reason, Done done) {
  execution->NothingHappened();
  // Of the codes that no policy can have recorded, the one that says "again".
  v1::Reply reply;
  reply.set_code(static_cast<int>(grpc::StatusCode::UNAVAILABLE));
  const auto settlement = Make(std::move(execution), std::move(reply), std::move(done));
  settlement->release_reason_ = std::move(reason);
  settlement->Start();
}

std::shared_ptr<Settlement> Settlement::Make(std::shared_ptr<LiveExecution> execution,
                                             v1::Reply reply, Done done) {
  struct Concrete : Settlement {
    Concrete(std::shared_ptr<LiveExecution> e, v1::Reply r, Done d)
        : Settlement(std::move(e), std::move(r), std::move(d)) {}
  };
  return std::make_shared<Concrete>(std::move(execution), std::move(reply), std::move(done));
}

Settlement::Settlement(std::shared_ptr<LiveExecution> execution, v1::Reply reply, Done done)
    : execution_(std::move(execution)),
      done_(std::move(done)),
      code_(static_cast<grpc::StatusCode>(reply.code())),
      disposition_(
          DispositionFor(execution_->operation().policy, code_, execution_->nothing_happened())),
      reply_(std::move(reply)) {}

void Settlement::Finish(const Outcome& outcome) {
  const GuardedOperation& operation = execution_->operation();
  Call(operation.options.hooks.on_recorded,
       {{operation.name, execution_->record_id(), execution_->attempt(),
         TraceparentOf(execution_->question().labels())},
        code_,
        disposition_,
        outcome.error});
  done_(outcome);
}

void Settlement::Start() {
  switch (disposition_) {
    case Disposition::kComplete:
      Complete();
      return;
    case Disposition::kRelease:
      Release(v1::RELEASE_OUTCOME_NOTHING_HAPPENED);
      return;
    case Disposition::kReleaseUnknown:
      Release(v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN);
      return;
    case Disposition::kLetLapse:
      execution_->recording()->LetLapse();
      Finish({LossIfRefused()});
      return;
  }
}

void Settlement::Complete() {
  const GuardedOperation& operation = execution_->operation();
  if (ReplyBytes(reply_) > operation.options.max_reply_bytes) {
    spdlog::warn("{}: a reply of {} bytes is over the limit and not kept, record {}",
                 operation.name, ReplyBytes(reply_), execution_->record_id());
    reply_ = WithoutContent(reply_);
  }
  execution_->recording()->Complete(
      std::move(reply_),
      [self = shared_from_this()](const auto& answer) { self->OnCompleted(answer); });
}

void Settlement::Release(v1::ReleaseOutcome outcome) {
  if (release_reason_.empty()) {
    release_reason_ =
        "the handler answered " + absl::StatusCodeToString(static_cast<absl::StatusCode>(code_));
  }
  execution_->recording()->Release(release_reason_, outcome, [self = shared_from_this(), outcome] {
    if (outcome == v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN) self->LeaveOpen();
    self->Finish({self->LossIfRefused()});
  });
}

absl::Status Settlement::LossIfRefused() const {
  // A failure must not be taken for the operation's: another attempt decides.
  return execution_->recording()->refused() ? ReservationLost() : absl::OkStatus();
}

void Settlement::LeaveOpen() {
  const auto& operation = execution_->shared_operation();
  if (operation->recoverer == nullptr) return;
  operation->recoverer->Note(operation, execution_->question());
}

void Settlement::OnCompleted(const absl::StatusOr<v1::CompleteResponse>& answer) {
  if (answer.ok()) {
    Finish({absl::OkStatus(),
            answer->has_expires_at() ? FromWire(answer->expires_at()) : execution_->expires_at()});
    return;
  }
  spdlog::error("{}: record {}: {}", execution_->operation().name, execution_->record_id(),
                std::string(answer.status().message()));
  // Whoever took it over may leave it open again.
  if (ReasonOf(answer.status()) == Reason::kReservationLost &&
      execution_->operation().policy.on_lease_expiry ==
          MethodPolicy::OnLeaseExpiry::kRequireRecovery) {
    LeaveOpen();
  }
  Finish({answer.status()});
}

}  // namespace idempotency
