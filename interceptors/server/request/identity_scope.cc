#include "interceptors/server/request/identity_scope.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

#include "core/sha256.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

constexpr absl::string_view kDigestPrefix = "sha256:";

}  // namespace

std::string IdentityScope(std::vector<absl::string_view> names) {
  std::sort(names.begin(), names.end());
  std::string scope = absl::StrJoin(names, ",", [](std::string* out, absl::string_view name) {
    absl::StrAppend(out, absl::StrReplaceAll(name, {{"\\", "\\\\"}, {",", "\\,"}}));
  });
  // A name like the digest of another identity is digested too: they must not share a scope.
  if (scope.size() <= limits::kMaxScopeBytes && !absl::StartsWith(scope, kDigestPrefix)) {
    return scope;
  }
  const Sha256Digest digest = Sha256(scope);
  return absl::StrCat(
      kDigestPrefix,
      absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()}));
}

}  // namespace idempotency::internal
