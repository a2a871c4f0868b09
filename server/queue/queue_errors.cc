#include "server/queue/queue_errors.h"

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {

absl::Status QueueIsFull() {
  return MakeError(Reason::kOverloaded, "Too much is queued. Nothing was done; try again later.",
                   RetryAfter(retry_delays::kServiceOverloaded));
}

absl::Status QueueIsClosed() {
  return MakeError(Reason::kStoreUnavailable,
                   "The service is shutting down. Nothing was done; try again.",
                   RetryAfter(retry_delays::kUnavailable));
}

absl::Status PassedInQueue() {
  return MakeErrorWithCode(
      Reason::kStoreUnavailable, absl::StatusCode::kDeadlineExceeded,
      "The call's deadline passed while it was queued. Nothing was done; try again.",
      RetryAfter(retry_delays::kServiceOverloaded));
}

absl::Status CallerLeftQueue() {
  return absl::CancelledError("the caller left while its reservation was queued");
}

}  // namespace idempotency::internal
