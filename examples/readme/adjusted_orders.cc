// docs/policies.md's adjustment of a policy in code, compiled so that it stays true.
#include "grpc_idempotency/server_guard/guard_options.h"

// [policies:adjust]
idempotency::GuardOptions WithLease(idempotency::GuardOptions options, absl::Duration lease) {
  options.methods["/orders.v1.Orders/PlaceOrder"].adjust =
      [lease](idempotency::MethodPolicy& policy) { policy.lease = lease; };
  return options;
}
// [policies:end]
