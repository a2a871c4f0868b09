#include "grpc_idempotency/client/retry_rule.h"

#include <optional>

#include "absl/status/status.h"

#include "core/indefinite_code.h"
#include "grpc_idempotency/grpc_status.h"

namespace idempotency {

// No default: a new reason does not compile until it is decided here.
bool IsRetryable(Reason reason) {
  switch (reason) {
    case Reason::kInFlight:
    // From a guard: the winner's reply is there for the next try.
    case Reason::kReservationLost:
    // The guard continues to record; the next try finds the reply, or waits.
    case Reason::kOutcomeNotRecorded:
    case Reason::kStoreUnavailable:
    case Reason::kQuotaExceeded:
    case Reason::kOverloaded:
    // A token that was renewed meanwhile is presented with the next try.
    case Reason::kCredentialsInvalid:
      return true;
    // Bugs of the client.
    case Reason::kKeyMissing:
    case Reason::kKeyInvalid:
    case Reason::kKeyReused:
    case Reason::kRequestInvalid:
    case Reason::kDownstreamRefused:
    case Reason::kAccessDenied:
    // An operator must determine the outcome.
    case Reason::kKeyExpired:
    case Reason::kOutcomeUnknown:
    case Reason::kRecordDamaged:
    case Reason::kRecordIdCollision:
    case Reason::kRecordChanged:
    case Reason::kForceRequired:
    // It happened; the reply is not available.
    case Reason::kReplyNotKept:
    case Reason::kFingerprintUnknown:
    case Reason::kRecordNotFound:
      return false;
  }
  return false;
}

bool IsRetryable(const grpc::Status& status, const std::set<grpc::StatusCode>& also_retried) {
  const grpc::StatusCode code = status.error_code();
  if (code == grpc::StatusCode::OK || code == grpc::StatusCode::FAILED_PRECONDITION) return false;
  // The next try gets the same message, over the same limit.
  if (IsOverReceiveLimit(status)) return false;
  const absl::Status failure = FromGrpcStatus(status);
  const std::optional<Reason> reason = ReasonOf(failure);
  if (reason.has_value()) return IsRetryable(*reason);
  return ProvesNothing(code) || internal::IsIndefiniteCode(failure.code()) ||
         also_retried.count(code) > 0;
}

}  // namespace idempotency
