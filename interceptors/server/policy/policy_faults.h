#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_POLICY_FAULTS_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_POLICY_FAULTS_H_

#include <string>
#include <vector>

namespace idempotency::internal {

// What cannot work in a method's policy, all of it, so that it is mended in one
// go. Each names a member as options.proto does, and the reason.
using PolicyFaults = std::vector<std::string>;

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_POLICY_FAULTS_H_
