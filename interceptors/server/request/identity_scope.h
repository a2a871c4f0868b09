#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_IDENTITY_SCOPE_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_IDENTITY_SCOPE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace idempotency::internal {

// Several texts as one scope: two lists of at least one text have the same scope only if they are
// equal. A comma inside a text is escaped. A scope that would be too long, or looks like a digest,
// is replaced by its digest.
std::string JoinedScope(const std::vector<absl::string_view>& parts);

// The scope of a caller with these names. A certificate may have several names of its owner; the
// set of names is the identity, in any order in the certificate.
std::string IdentityScope(std::vector<absl::string_view> names);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_IDENTITY_SCOPE_H_
