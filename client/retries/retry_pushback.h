#ifndef IDEMPOTENCY_CLIENT_RETRIES_RETRY_PUSHBACK_H_
#define IDEMPOTENCY_CLIENT_RETRIES_RETRY_PUSHBACK_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include "absl/time/time.h"

namespace idempotency::internal {

// A server's statement about the next try.
struct RetryPushback {
  // Not before this has passed: the longer one of google.rpc.RetryInfo in the
  // status' details and of the trailer grpc-retry-pushback-ms; zero without
  // either.
  absl::Duration least;
  // Not at all: a pushback that is negative or no number (gRFC A6).
  bool forbidden = false;
};

// `context` is that of the call, which has ended with `status`. The status may
// be of any service, not only of a guard.
RetryPushback RetryPushbackOf(const grpc::Status& status, const grpc::ClientContext& context);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_RETRIES_RETRY_PUSHBACK_H_
