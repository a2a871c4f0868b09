#ifndef IDEMPOTENCY_CLIENT_CONNECTION_NOT_CONNECTED_H_
#define IDEMPOTENCY_CLIENT_CONNECTION_NOT_CONNECTED_H_

#include "absl/status/status.h"

namespace idempotency::internal {

// How a Connection answers an operation that it never sent, because there is no
// connection to any daemon (they refuse it, or cannot be reached): nothing was
// granted. STORE_UNAVAILABLE with a retry delay, and `cause: NOT_CONNECTED` in its
// ErrorInfo.
absl::Status NotConnected();
// True for such an answer. False for every other failure, after which the
// operation may have been done.
bool IsNotConnected(const absl::Status& status);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_CONNECTION_NOT_CONNECTED_H_
