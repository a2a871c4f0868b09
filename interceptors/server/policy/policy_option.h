#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_POLICY_OPTION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_POLICY_OPTION_H_

#include "google/protobuf/descriptor.h"

#include "grpc_idempotency/server_guard/method_policy.h"
#include "idempotency/v1/options.pb.h"
#include "interceptors/server/policy/policy_rules.h"

namespace idempotency::internal {

// The method's default, with the members that `option` sets replaced. Faults that only an
// option can have (a code in two lists, an invalid Duration) are added to `faults` and leave
// the default; ranges are checked in policy_rules.h.
MethodPolicy PolicyFromOption(const google::protobuf::MethodDescriptor& method,
                              const v1::Policy& option, PolicyFaults& faults);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_POLICY_OPTION_H_
