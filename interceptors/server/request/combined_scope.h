#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_COMBINED_SCOPE_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_COMBINED_SCOPE_H_

#include "absl/status/status.h"

#include "grpc_idempotency/server_guard/scope.h"

namespace idempotency::internal {

// INVALID_ARGUMENT if `scope` is a CombinedScope that cannot name a caller: without parts, or with
// an empty one.
absl::Status ValidateScopeFunction(const ScopeFunction& scope);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_COMBINED_SCOPE_H_
