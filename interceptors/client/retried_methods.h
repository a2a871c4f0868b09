#ifndef IDEMPOTENCY_INTERCEPTORS_CLIENT_RETRIED_METHODS_H_
#define IDEMPOTENCY_INTERCEPTORS_CLIENT_RETRIED_METHODS_H_

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"

namespace idempotency::internal {

// A name of a service config: one method, or every method of a service.
struct RetriedName {
  std::string service;
  // "": every method of the service.
  std::string method;

  friend bool operator<(const RetriedName& a, const RetriedName& b) {
    return a.service != b.service ? a.service < b.service : a.method < b.method;
  }
};

// The methods that a client may retry, among `named`, guarded services ("payments.v1.Payments")
// and methods ("payments.v1.Payments/Charge"), and the services of this program (those whose
// descriptors are linked into it). A method of this program's services is included if
//   - it is NO_SIDE_EFFECTS or IDEMPOTENT: a repeat does no harm; or
//   - its calls carry a key (core/declared_policy.h), and it is guarded: its
//     proto has the option (idempotency.v1.policy), or it, or its service, is
//     named.
// If `named` is not empty, only the named ones are included. A name that is not of this program
// is accepted unchecked. INVALID_ARGUMENT / REQUEST_INVALID for an invalid name, and for a
// method that may not be retried.
absl::StatusOr<std::set<RetriedName>> RetriedMethods(const std::set<std::string>& named);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_CLIENT_RETRIED_METHODS_H_
