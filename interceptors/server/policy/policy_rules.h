#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_POLICY_RULES_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_POLICY_RULES_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

#include "grpc_idempotency/server_guard/method_policy.h"

namespace idempotency::internal {

// As on the wire: "/payments.v1.Payments/Charge".
inline std::string MethodPath(const google::protobuf::MethodDescriptor& method) {
  return absl::StrCat("/", method.service()->full_name(), "/", method.name());
}

// All faults of a method's policy, so that they can be corrected together. Each names a member
// as options.proto does, and the reason.
using PolicyFaults = std::vector<std::string>;

// The rules for every policy, from a proto or from code.

// The faults of a policy for any method: ranges, and members that exclude each other.
PolicyFaults FaultsOf(const MethodPolicy& policy);

// The faults of a policy for the calls of `method`: its kind, its request's fields, metadata.
// The other function's faults are not among them.
PolicyFaults FaultsFor(const google::protobuf::MethodDescriptor& method,
                       const MethodPolicy& policy);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_POLICY_RULES_H_
