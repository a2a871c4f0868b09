#include "interceptors/server/admission/background_recovery.h"

#include <utility>
#include <variant>

#include "core/answer_kind.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

// The record may still be open.
bool IsOpen(const absl::Status& why) {
  // No default: a new reason does not compile until it is decided.
  switch (ReasonOf(why).value_or(Reason::kStoreUnavailable)) {
    case Reason::kInFlight:
    case Reason::kOutcomeUnknown:
    case Reason::kReservationLost:
    case Reason::kOutcomeNotRecorded:
    case Reason::kStoreUnavailable:
    case Reason::kQuotaExceeded:
    case Reason::kOverloaded:
    // Refusals of the guard, which may be corrected meanwhile.
    case Reason::kCredentialsInvalid:
    case Reason::kAccessDenied:
      return true;
    case Reason::kKeyMissing:
    case Reason::kKeyInvalid:
    case Reason::kKeyReused:
    case Reason::kKeyExpired:
    case Reason::kReplyNotKept:
    case Reason::kRequestInvalid:
    case Reason::kFingerprintUnknown:
    case Reason::kRecordNotFound:
    case Reason::kRecordDamaged:
    case Reason::kRecordIdCollision:
    case Reason::kDownstreamRefused:
    case Reason::kRecordChanged:
    case Reason::kForceRequired:
      break;
  }
  return false;
}

}  // namespace

std::shared_ptr<BackgroundRecovery> BackgroundRecovery::Make(Scheduler& scheduler,
                                                             std::size_t limit,
                                                             std::size_t at_once) {
  return std::make_shared<BackgroundRecovery>(PassKey<BackgroundRecovery>(), scheduler, limit,
                                              at_once);
}

BackgroundRecovery::BackgroundRecovery(PassKey<BackgroundRecovery> /*key*/, Scheduler& scheduler,
                                       std::size_t limit, std::size_t at_once)
    : scheduler_(scheduler), limit_(limit), at_once_(at_once) {}

void BackgroundRecovery::Add(std::shared_ptr<const GuardedOperation> operation,
                             const v1::ReserveRequest& reserve_request) {
  if (!operation->recovery) return;
  std::string name = reserve_request.record_key().SerializeAsString();
  MutexLock lock(mutex_);
  if (stopped_) return;
  if (const auto found = candidates_.find(name); found != candidates_.end()) {
    found->second.added_again = true;
    return;
  }
  if (candidates_.size() >= limit_) {
    operation->log->Warn(LogEvent::kRecoveryPostponed, operation->name,
                         ": recovery of an unknown outcome is left to the next call: ",
                         candidates_.size(), " records wait for recovery");
    return;
  }
  const Scheduler::Time give_up = After(scheduler_.Now(), operation->policy.retention);
  const auto added =
      candidates_.emplace(name, Candidate{std::move(operation), reserve_request, give_up}).first;
  TryLater(added->first);
}

void BackgroundRecovery::TryLater(const std::string& name) {
  TryAt(After(scheduler_.Now(), candidates_.at(name).backoff.Next()), name);
}

void BackgroundRecovery::TryAt(Scheduler::Time when, const std::string& name) {
  scheduler_.RunAt(when, [self = shared_from_this(), name] { self->Try(name); });
}

void BackgroundRecovery::Try(const std::string& name) {
  std::shared_ptr<const GuardedOperation> operation;
  v1::ReserveRequest reserve_request;
  {
    MutexLock lock(mutex_);
    const auto found = candidates_.find(name);
    if (found == candidates_.end()) return;
    if (trying_ >= at_once_) {
      // Not a try of this record: its pauses do not grow.
      TryAt(After(scheduler_.Now(), kFirstPause), name);
      return;
    }
    ++trying_;
    found->second.added_again = false;
    operation = found->second.operation;
    reserve_request = found->second.reserve_request;
  }
  ReservationClient& reservations = operation->reservations;
  const Scheduler::Time deadline = After(reservations.Now(), operation->options.verdict_timeout);
  const v1::RecordKey key = reserve_request.record_key();
  reservations.Find(key, deadline,
                    [self = shared_from_this(), name, operation = std::move(operation),
                     reserve_request = std::move(reserve_request)](const absl::Status& found) {
                      self->OnFound(name, operation, reserve_request, found);
                    });
}

void BackgroundRecovery::OnFound(const std::string& name,
                                 std::shared_ptr<const GuardedOperation> operation,
                                 v1::ReserveRequest reserve_request, const absl::Status& found) {
  if (!found.ok() && !RefusesCaller(found)) {
    OnDecision(name, Admission::Refused{found, /*record_id=*/"", /*no_verdict=*/false});
    return;
  }
  const Scheduler::Time deadline = VerdictDeadline(*operation);
  Admission::Admit(std::move(operation),
                   std::make_shared<v1::ReserveRequest>(std::move(reserve_request)), deadline,
                   [self = shared_from_this(), name](const Admission::Decision& decision) {
                     self->OnDecision(name, decision);
                   });
}

void BackgroundRecovery::OnDecision(const std::string& name, const Admission::Decision& decision) {
  if (const auto* granted = std::get_if<Admission::Granted>(&decision)) {
    // Nothing happened, as recovery found out now, or another one did earlier: the client may
    // run the operation.
    const std::shared_ptr<Reservation> reservation = granted->execution->reservation();
    reservation->GiveBack("recovered: nothing happened",
                          [self = shared_from_this(), name, reservation] {
                            self->EndTry(name, /*is_open=*/!reservation->release_answer().ok());
                          });
    return;
  }
  const auto* refused = std::get_if<Admission::Refused>(&decision);
  EndTry(name, refused != nullptr && IsOpen(refused->why));
}

void BackgroundRecovery::EndTry(const std::string& name, bool is_open) {
  MutexLock lock(mutex_);
  --trying_;
  const auto found = candidates_.find(name);
  if (found == candidates_.end()) return;
  const bool may_be_open = is_open || found->second.added_again;
  if (may_be_open && scheduler_.Now() < found->second.give_up) {
    TryLater(name);
  } else {
    candidates_.erase(found);
  }
}

void BackgroundRecovery::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  candidates_.clear();
}

std::size_t BackgroundRecovery::size() {
  MutexLock lock(mutex_);
  return candidates_.size();
}

}  // namespace idempotency::internal
