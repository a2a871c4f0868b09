#ifndef IDEMPOTENCY_INTERCEPTORS_CLIENT_ATTACHED_CALL_H_
#define IDEMPOTENCY_INTERCEPTORS_CLIENT_ATTACHED_CALL_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

#include "client/downstream/parent_operation.h"

namespace idempotency::internal {

// In gRPC's type for client interceptors, before the call is sent.
using CallMetadata = std::multimap<std::string, std::string>;

// Sets the key and the parent on a call that a guarded handler attached to its execution, and
// removes the marks of Attach. `method` is as on the wire. A call that needs no key and has no
// key of its own is sent without one.
//
// Returns the parent, which the reply's retention is compared with; nullptr for a call that is
// not attached, whose metadata does not change. DOWNSTREAM_REFUSED if the call must not be
// sent:
//   - Attach failed for it, or its execution has ended
//   - it is attached twice
//   - it would carry the parent's own key, or another one in addition to its own
//   - it is the second one to its method without a label
absl::StatusOr<std::shared_ptr<ParentOperation>> ResolveAttachedCall(std::string_view method,
                                                                     bool needs_key,
                                                                     CallMetadata& metadata);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_CLIENT_ATTACHED_CALL_H_
