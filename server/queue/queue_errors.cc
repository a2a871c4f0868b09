#include "server/queue/queue_errors.h"

#include "absl/time/time.h"

#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

// The retry delay of a refused caller: a full queue of 16 Ki operations is half
// a second of work for a healthy store.
constexpr absl::Duration kOverloadedRetryDelay = absl::Milliseconds(500);
// The time that another replica, or this one after its restart, needs to take
// over.
constexpr absl::Duration kClosedRetryDelay = absl::Seconds(1);

}  // namespace

absl::Status QueueIsFull() {
  return MakeError(Reason::kOverloaded, "Too much is queued. Nothing was done; try again later.",
                   {kOverloadedRetryDelay, {}, {}});
}

absl::Status QueueIsClosed() {
  return MakeError(Reason::kStoreUnavailable,
                   "The service is shutting down. Nothing was done; try again.",
                   {kClosedRetryDelay, {}, {}});
}

absl::Status PassedInQueue() {
  return MakeErrorWithCode(
      Reason::kStoreUnavailable, absl::StatusCode::kDeadlineExceeded,
      "The call's deadline passed while it was queued. Nothing was done; try again.",
      {kOverloadedRetryDelay, {}, {}});
}

absl::Status CallerLeftQueue() {
  return absl::CancelledError("the caller left while its reservation was queued");
}

}  // namespace idempotency::internal
