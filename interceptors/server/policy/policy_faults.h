#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_POLICY_FAULTS_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_POLICY_FAULTS_H_

#include <string>
#include <vector>

namespace idempotency::internal {

// All faults of a method's policy, so that they can be corrected together. Each names a member
// as options.proto does, and the reason.
using PolicyFaults = std::vector<std::string>;

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_POLICY_FAULTS_H_
