#ifndef GRPC_IDEMPOTENCY_CLIENT_RETRY_RULE_H_
#define GRPC_IDEMPOTENCY_CLIENT_RETRY_RULE_H_

#include <grpcpp/support/status.h>

#include <set>

#include "grpc_idempotency/errors.h"

namespace idempotency {

// True if a rejection with that reason is temporary, so that the same call with the same key is
// worth another try: for IN_FLIGHT, RESERVATION_LOST, OUTCOME_NOT_RECORDED, STORE_UNAVAILABLE,
// QUOTA_EXCEEDED, OVERLOADED and CREDENTIALS_INVALID (the next try presents a token that was
// renewed meanwhile). With every other reason the same call gets the same answer until an
// operator or the application has changed something. That does not mean that the operation's
// outcome is known: see call_with_retries.h.
bool IsRetryable(Reason reason);

// True if one more try of a guarded call, with the same key and the same request, is safe and
// may help. In this order:
//
// - OK and FAILED_PRECONDITION: never, with any details.
// - gRPC's own RESOURCE_EXHAUSTED for a message or metadata over a receive limit
//   (IsOverReceiveLimit()): never.
// - A status with a reason of the catalogue: the reason decides.
// - UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, UNKNOWN, INTERNAL: yes. gRPC generates them when
//   it lost the answer (a server that shuts down cancels its calls), so the operation may have
//   happened: the key makes a repeat safe, and only a repeat shows the outcome. UNIMPLEMENTED
//   too: gRPC's callback API returns it when a handler throws, and no guard records it; from a
//   server of the previous version, it disappears with the deployment.
// - Any other: only if `also_retried` contains it (CallRetries::also_retried). ABORTED and
//   RESOURCE_EXHAUSTED without a reason come from the service itself or from a proxy in front of
//   it; whether they are temporary depends on that service.
bool IsRetryable(const grpc::Status& status, const std::set<grpc::StatusCode>& also_retried);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_RETRY_RULE_H_
