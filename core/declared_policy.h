#ifndef IDEMPOTENCY_CORE_DECLARED_POLICY_H_
#define IDEMPOTENCY_CORE_DECLARED_POLICY_H_

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"

#include "idempotency/v1/options.pb.h"

namespace idempotency::internal {

// What a method's proto says of itself, for the guard and for the client
// interceptor: both must read it in the same way, or calls go out without the
// key that the other side asks for.

// The option (idempotency.v1.policy), as it is written: an empty policy if
// there is none. INVALID_ARGUMENT if it cannot be read.
absl::StatusOr<v1::Policy> DeclaredPolicy(const google::protobuf::MethodOptions& options);

// Whether the method's calls carry a key: what `declared`, its own option, says.
// Where it says nothing, KEY_NONE for NO_SIDE_EFFECTS and IDEMPOTENT methods
// (protobuf's idempotency_level) and for streaming ones, unless their streams
// are to be captured; KEY_REQUIRED for every other. Never KEY_UNSPECIFIED.
v1::Policy::Key KeyRule(const google::protobuf::MethodDescriptor& method,
                        const v1::Policy& declared);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_DECLARED_POLICY_H_
