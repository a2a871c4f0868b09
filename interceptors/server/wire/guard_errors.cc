#include "interceptors/server/wire/guard_errors.h"

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {

absl::Status KeyReused() {
  return MakeError(Reason::kKeyReused,
                   "this idempotency key was used with a different request: use a new key for "
                   "a new operation, and the same request on every retry");
}

absl::Status ReservationLost() {
  return MakeErrorWithCode(Reason::kReservationLost, absl::StatusCode::kAborted,
                           "another attempt took this operation over: call again with the same "
                           "idempotency key for its reply",
                           RetryAfter(retry_delays::kAnotherAttempt));
}

}  // namespace idempotency::internal
