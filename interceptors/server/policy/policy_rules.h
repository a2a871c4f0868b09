#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_POLICY_RULES_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_POLICY_RULES_H_

#include "google/protobuf/descriptor.h"

#include "grpc_idempotency/server_guard/method_policy.h"
#include "interceptors/server/policy/policy_faults.h"

namespace idempotency::internal {

// The rules for every policy, from a proto or from code.

// The faults of a policy for any method: ranges, and members that exclude each other.
PolicyFaults FaultsOf(const MethodPolicy& policy);

// The faults of a policy for the calls of `method`: its kind, its request's fields, metadata.
// The other function's faults are not among them.
PolicyFaults FaultsFor(const google::protobuf::MethodDescriptor& method,
                       const MethodPolicy& policy);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_POLICY_RULES_H_
