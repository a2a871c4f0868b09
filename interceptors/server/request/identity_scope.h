#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_IDENTITY_SCOPE_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_IDENTITY_SCOPE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/record_key_parts.h"

namespace idempotency::internal {

// Several texts as one scope: two lists of at least one text have the same scope only if they are
// equal. A comma inside a text is escaped. A scope that would be too long, or looks like a digest,
// is replaced by its digest.
std::string JoinedScope(const std::vector<absl::string_view>& parts);

// JoinedScope of `scope_of` each part. The first error of one; also of a scope that would be
// refused alone, an empty one for example.
template <typename Part, typename ScopeOf>
absl::StatusOr<std::string> JoinScopes(const std::vector<Part>& parts, ScopeOf scope_of) {
  std::vector<std::string> scopes;
  for (const Part& part : parts) {
    absl::StatusOr<std::string> scope = scope_of(part);
    if (!scope.ok()) return scope;
    if (absl::Status valid = ValidateScope(*scope); !valid.ok()) return valid;
    scopes.push_back(*std::move(scope));
  }
  return JoinedScope({scopes.begin(), scopes.end()});
}

// The scope of a caller with these names. A certificate may have several names of its owner; the
// set of names is the identity, in any order in the certificate.
std::string IdentityScope(std::vector<absl::string_view> names);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_IDENTITY_SCOPE_H_
