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

// Stable: callers and dashboards match on them. Each comment gives the name on the wire, the status
// code, what happened, and what to do; docs/errors.md has the details of each. "The handler" is
// that of a guarded method; a caller of idempotencyd itself has its own operation in its place.
//
// A guarded call returns any of them but RECORD_NOT_FOUND, RECORD_CHANGED, FORCE_REQUIRED,
// CREDENTIALS_INVALID and ACCESS_DENIED, which only methods of idempotencyd return. A guard that
// gets one of the last two returns STORE_UNAVAILABLE to its caller.
enum class Reason {
  // KEY_MISSING, INVALID_ARGUMENT. The method requires a key; the handler did not run.
  // Send an idempotency-key.
  kKeyMissing,
  // KEY_INVALID, INVALID_ARGUMENT. The key is malformed, one of several different ones, or a
  // UUIDv7 of the future; the handler did not run.
  // Correct the key.
  kKeyInvalid,
  // KEY_REUSED, FAILED_PRECONDITION. The key belongs to a different request; the handler did not
  // run for this one.
  // A bug of the client: use a new key for a new operation.
  kKeyReused,
  // KEY_EXPIRED, FAILED_PRECONDITION. The key is too old to determine whether the handler ran with
  // it; it did not run now.
  // Find out, then use a new key.
  kKeyExpired,
  // IN_FLIGHT, ABORTED. Another attempt runs, or has failed and pauses; the handler did not run for
  // this one.
  // Retry with the same key after the delay.
  kInFlight,
  // OUTCOME_UNKNOWN, FAILED_PRECONDITION. An attempt may have had its effect, and the policy
  // requires recovery; the handler does not run again.
  // Do not retry: find out what the attempt did, and settle the record.
  kOutcomeUnknown,
  // RESERVATION_LOST, FAILED_PRECONDITION (service), ABORTED (guard). The attempt no longer holds
  // the record; its handler may have run, and its reply is not the operation's.
  // Retry with the same key; not after a guard's with the cause RECORD_EXPIRED, it would run again.
  kReservationLost,
  // OUTCOME_NOT_RECORDED, UNAVAILABLE. The handler finished, but the store has not acknowledged its
  // reply.
  // Retry with the same key.
  kOutcomeNotRecorded,
  // REPLY_NOT_KEPT, FAILED_PRECONDITION. The operation completed earlier, but its reply was not
  // stored; the handler did not run again.
  // Do not retry: `original_code` in the metadata is how it ended.
  kReplyNotKept,
  // STORE_UNAVAILABLE, UNAVAILABLE, or DEADLINE_EXCEEDED (service). There is no verdict; the
  // handler did not run for this call. From idempotencyd itself: the call may have had its effect.
  // Retry with the same key (idempotencyd: with the same tokens) after the delay.
  kStoreUnavailable,
  // QUOTA_EXCEEDED, RESOURCE_EXHAUSTED. The namespace is over its `limit` (metadata); the handler
  // did not run.
  // Retry with the same key after the delay.
  kQuotaExceeded,
  // OVERLOADED, RESOURCE_EXHAUSTED. A bound of idempotencyd or of the guard is reached; the handler
  // did not run for this call.
  // Retry with the same key after the delay.
  kOverloaded,
  // REQUEST_INVALID, INVALID_ARGUMENT. A field of the request is wrong; the handler did not run.
  // Correct the field that BadRequest names.
  kRequestInvalid,
  // FINGERPRINT_UNKNOWN, FAILED_PRECONDITION. The record and the request have no fingerprint
  // version in common; the handler did not run for this call.
  // Retry through a guard that has the record's version.
  kFingerprintUnknown,
  // RECORD_NOT_FOUND, NOT_FOUND. No such record exists, it has expired, or the caller has no right
  // to it; nothing was done.
  // Check the key.
  kRecordNotFound,
  // RECORD_DAMAGED, DATA_LOSS. The stored record cannot be read; the handler does not run again.
  // Do not retry: an operator restores or purges the record.
  kRecordDamaged,
  // RECORD_ID_COLLISION, INTERNAL. The record of this key's id belongs to another key; the handler
  // did not run for this call.
  // Use a new key.
  kRecordIdCollision,
  // DOWNSTREAM_REFUSED, INTERNAL. The handler ran and made a call that cannot get a key; that call
  // was not sent.
  // A bug of the handler: make the call so that its key is defined (docs/workflows.md).
  kDownstreamRefused,
  // CREDENTIALS_INVALID, UNAUTHENTICATED. The certificate or token is no identity's, or has
  // expired; nothing was done.
  // Renew it, or list it in the configuration.
  kCredentialsInvalid,
  // ACCESS_DENIED, PERMISSION_DENIED. No rule permits this to the caller; nothing was done.
  // Add a rule to the configuration.
  kAccessDenied,
  // RECORD_CHANGED, FAILED_PRECONDITION. The record is not in the state that the administrator
  // expected; nothing was done.
  // Read the record again, and decide.
  kRecordChanged,
  // FORCE_REQUIRED, FAILED_PRECONDITION. An attempt may be running, or the operation might run
  // twice; nothing was done.
  // Wait, or set `force`.
  kForceRequired,
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

// The details of an error, in addition to its message.
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

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_ERRORS_H_
