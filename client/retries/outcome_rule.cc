#include "client/retries/outcome_rule.h"

#include <optional>
#include <string_view>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/idempotency_key.h"

namespace idempotency::internal {
namespace {

// No default: a new reason does not compile until it is decided here.
bool RefusesKeyOrRequest(Reason reason) {
  switch (reason) {
    case Reason::kKeyInvalid:
    case Reason::kRequestInvalid:
      return true;
    // The key was sent: a proxy removed it, now and perhaps not before.
    case Reason::kKeyMissing:
    // Keys of a KeyStore belong to one piece of work: it was sent before, with another request.
    case Reason::kKeyReused:
    case Reason::kFingerprintUnknown:
    // It may have happened.
    case Reason::kKeyExpired:
    case Reason::kOutcomeUnknown:
    case Reason::kReservationLost:
    case Reason::kRecordDamaged:
    case Reason::kRecordIdCollision:
    // It happened. A caller that takes every error for a failure would do it again.
    case Reason::kReplyNotKept:
    // Of a call that the handler made: it may have done other things.
    case Reason::kDownstreamRefused:
    case Reason::kAccessDenied:
    case Reason::kRecordNotFound:
    case Reason::kRecordChanged:
    case Reason::kForceRequired:
    // Retryable.
    case Reason::kInFlight:
    case Reason::kOutcomeNotRecorded:
    case Reason::kStoreUnavailable:
    case Reason::kQuotaExceeded:
    case Reason::kOverloaded:
    case Reason::kCredentialsInvalid:
      return false;
  }
  return false;
}

bool Has(const Trailers& trailers, std::string_view name) {
  return trailers.count(grpc::string_ref(name.data(), name.size())) > 0;
}

bool IsRecorded(const Trailers& trailers) {
  return Has(trailers, kReplayedMetadata) ||
         (Has(trailers, kRecordMetadata) && Has(trailers, kExpiresMetadata));
}

}  // namespace

bool IsOutcome(const grpc::Status& status, const Trailers& trailers, int tries) {
  if (status.ok()) return true;
  const std::optional<Reason> reason = ReasonOf(FromGrpcStatus(status));
  if (reason.has_value()) return tries <= 1 && RefusesKeyOrRequest(*reason);
  // gRPC itself fails a call whose reply is too large; the trailers may be those of the reply.
  return IsRecorded(trailers) && !IsOverReceiveLimit(status);
}

}  // namespace idempotency::internal
