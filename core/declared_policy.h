#ifndef IDEMPOTENCY_CORE_DECLARED_POLICY_H_
#define IDEMPOTENCY_CORE_DECLARED_POLICY_H_

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"

#include "idempotency/v1/options.pb.h"

namespace idempotency::internal {

// The policy in a method's proto, for the guard and for the client interceptor:
// both must read it in the same way, or calls are sent without the key that the
// other side requires.

// The option (idempotency.v1.policy), unchanged: an empty policy if there is
// none. INVALID_ARGUMENT if it cannot be read.
absl::StatusOr<v1::Policy> DeclaredPolicy(const google::protobuf::MethodOptions& options);

// Whether the method's own proto declares that a repeat does no harm: NO_SIDE_EFFECTS or
// IDEMPOTENT.
bool IsHarmlessToRepeat(const google::protobuf::MethodDescriptor& method);

// Whether the method's calls carry a key, from `declared`, its own option. If
// that does not set it, KEY_NONE for NO_SIDE_EFFECTS and IDEMPOTENT methods
// (protobuf's idempotency_level) and for streaming ones, unless their streams
// are to be captured; KEY_REQUIRED for every other. Never KEY_UNSPECIFIED.
v1::Policy::Key KeyRule(const google::protobuf::MethodDescriptor& method,
                        const v1::Policy& declared);

// Whether the method's own proto declares that its server guards it: it has the option, and its
// calls carry a key. Clients retry such a method without further configuration.
bool IsDeclaredGuarded(const google::protobuf::MethodDescriptor& method);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_DECLARED_POLICY_H_
