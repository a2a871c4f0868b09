// The error catalogue. Every error that a caller can get is made here, so that its reason, its
// status code and its advice are the same everywhere. The functions are thread-safe.
#ifndef GRPC_IDEMPOTENCY_ERRORS_H_
#define GRPC_IDEMPOTENCY_ERRORS_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace idempotency {

// google.rpc.ErrorInfo.domain of every error below.
inline constexpr std::string_view kErrorDomain = "grpc-idempotency.dev";

// Stable: callers and dashboards match on them. Each comment gives the name on the wire and the
// status code.
//
// CREDENTIALS_INVALID and ACCESS_DENIED are for the callers of idempotencyd. A guard that gets one
// returns STORE_UNAVAILABLE to its own caller.
enum class Reason {
  kKeyMissing,          // KEY_MISSING, INVALID_ARGUMENT
  kKeyInvalid,          // KEY_INVALID, INVALID_ARGUMENT
  kKeyReused,           // KEY_REUSED, FAILED_PRECONDITION
  kKeyExpired,          // KEY_EXPIRED, FAILED_PRECONDITION
  kInFlight,            // IN_FLIGHT, ABORTED
  kOutcomeUnknown,      // OUTCOME_UNKNOWN, FAILED_PRECONDITION
  kReservationLost,     // RESERVATION_LOST, FAILED_PRECONDITION (service), ABORTED (guard)
  kOutcomeNotRecorded,  // OUTCOME_NOT_RECORDED, UNAVAILABLE
  kReplyNotKept,        // REPLY_NOT_KEPT, FAILED_PRECONDITION
  kStoreUnavailable,    // STORE_UNAVAILABLE, UNAVAILABLE, or DEADLINE_EXCEEDED (service)
  kQuotaExceeded,       // QUOTA_EXCEEDED, RESOURCE_EXHAUSTED
  kOverloaded,          // OVERLOADED, RESOURCE_EXHAUSTED
  kRequestInvalid,      // REQUEST_INVALID, INVALID_ARGUMENT
  kFingerprintUnknown,  // FINGERPRINT_UNKNOWN, FAILED_PRECONDITION
  kRecordNotFound,      // RECORD_NOT_FOUND, NOT_FOUND
  kRecordDamaged,       // RECORD_DAMAGED, DATA_LOSS
  kRecordIdCollision,   // RECORD_ID_COLLISION, INTERNAL
  kDownstreamRefused,   // DOWNSTREAM_REFUSED, INTERNAL
  kCredentialsInvalid,  // CREDENTIALS_INVALID, UNAUTHENTICATED
  kAccessDenied,        // ACCESS_DENIED, PERMISSION_DENIED
  kRecordChanged,       // RECORD_CHANGED, FAILED_PRECONDITION
  kForceRequired,       // FORCE_REQUIRED, FAILED_PRECONDITION
};

// All of them, in the order of the enumeration.
std::vector<Reason> AllReasons();
// The name on the wire, for example "KEY_MISSING".
std::string_view ReasonName(Reason reason);
std::optional<Reason> ReasonFromName(std::string_view name);
// The reason's status code in the catalogue (for RESERVATION_LOST the service's).
absl::StatusCode CodeOf(Reason reason);

// google.rpc.BadRequest.FieldViolation.
struct FieldViolation {
  std::string field;
  std::string description;
};

// The details of an error beside its message.
struct ErrorDetails {
  // google.rpc.RetryInfo, and the trailer grpc-retry-pushback-ms.
  std::optional<absl::Duration> retry_delay;
  // google.rpc.BadRequest.
  std::vector<FieldViolation> violations;
  // google.rpc.ErrorInfo.metadata. Never a key, a body or a token.
  std::map<std::string, std::string> metadata;
};

// A status of the catalogue. `message` states the fault and the remedy.
absl::Status MakeError(Reason reason, std::string_view message, ErrorDetails details = {});
// The same with a code that differs from the catalogue's: only for RESERVATION_LOST at the
// guard, and for STORE_UNAVAILABLE of a call whose deadline passed in the service's queue.
absl::Status MakeErrorWithCode(Reason reason, absl::StatusCode code, std::string_view message,
                               ErrorDetails details = {});

// The most common error: INVALID_ARGUMENT / REQUEST_INVALID with one violation.
absl::Status InvalidField(std::string_view field, std::string_view description);

// nullopt for a status that is not of the catalogue (OK, or a transport failure).
std::optional<Reason> ReasonOf(const absl::Status& status);
// Empty for a status that is not of the catalogue.
ErrorDetails DetailsOf(const absl::Status& status);

// True if the operation may or may not have happened: UNAVAILABLE, DEADLINE_EXCEEDED,
// CANCELLED, UNKNOWN, INTERNAL.
bool IsIndefinite(const absl::Status& status);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_ERRORS_H_
