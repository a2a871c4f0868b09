#ifndef IDEMPOTENCY_SERVER_QUEUE_QUEUE_ERRORS_H_
#define IDEMPOTENCY_SERVER_QUEUE_QUEUE_ERRORS_H_

#include "absl/status/status.h"

namespace idempotency::internal {

// The answers to operations that do not reach the store. Nothing happened, and a repeat is safe.

// RESOURCE_EXHAUSTED / OVERLOADED, with a retry delay.
absl::Status QueueIsFull();
// UNAVAILABLE / STORE_UNAVAILABLE, with a retry delay.
absl::Status QueueIsClosed();
// DEADLINE_EXCEEDED / STORE_UNAVAILABLE, with a retry delay.
absl::Status PassedInQueue();
// CANCELLED.
absl::Status CallerLeftQueue();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_QUEUE_ERRORS_H_
