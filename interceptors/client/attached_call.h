#ifndef IDEMPOTENCY_INTERCEPTORS_CLIENT_ATTACHED_CALL_H_
#define IDEMPOTENCY_INTERCEPTORS_CLIENT_ATTACHED_CALL_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

#include "client/parent_operation.h"

namespace idempotency::internal {

// As gRPC shows it to client interceptors, before it is sent.
using CallMetadata = std::multimap<std::string, std::string>;

// Gives a call that a guarded handler attached to itself its key and its
// parent, and takes the marks of Attach off. `method` is as on the wire; a call
// that needs no key and has none of its own goes without.
//
// The parent, for what the reply tells; nullptr for a call that is not
// attached, whose metadata stays as it is. DOWNSTREAM_REFUSED if it must not
// be sent:
//   - Attach failed for it, or its execution has ended
//   - it is attached twice
//   - it would carry the parent's own key, or another one besides its own
//   - it is the second one to its method without a label
absl::StatusOr<std::shared_ptr<ParentOperation>> ResolveAttachedCall(std::string_view method,
                                                                     bool needs_key,
                                                                     CallMetadata& metadata);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_CLIENT_ATTACHED_CALL_H_
