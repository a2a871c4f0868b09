#ifndef GRPC_IDEMPOTENCY_CLIENT_RECORDED_OUTCOME_H_
#define GRPC_IDEMPOTENCY_CLIENT_RECORDED_OUTCOME_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

namespace idempotency {

// True if `status`, of a call that was made with `context`, is the operation's outcome: OK, or a
// failure that a guard has recorded, so that every later call with the same key and request gets
// it too. A workflow acts on it (docs/workflows.md). Every other status leaves the outcome open:
// one with a reason of the catalogue, one without the trailers of a recorded status, and INTERNAL
// and the codes that gRPC itself returns, which may be an OK whose reply was lost. Thread-safe.
bool IsRecordedOutcome(const grpc::Status& status, const grpc::ClientContext& context);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_RECORDED_OUTCOME_H_
