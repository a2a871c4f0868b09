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

std::string JoinedScope(const std::vector<absl::string_view>& parts) {
  std::string scope = absl::StrJoin(parts, ",", [](std::string* out, absl::string_view part) {
    absl::StrAppend(out, absl::StrReplaceAll(part, {{"\\", "\\\\"}, {",", "\\,"}}));
  });
  // A text like the digest of another identity is digested too: they must not share a scope.
  if (scope.size() <= limits::kMaxScopeBytes && !absl::StartsWith(scope, kDigestPrefix)) {
    return scope;
  }
  const Sha256Digest digest = Sha256(scope);
  return absl::StrCat(
      kDigestPrefix,
      absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()}));
}

std::string IdentityScope(std::vector<absl::string_view> names) {
  std::sort(names.begin(), names.end());
  return JoinedScope(names);
}

}  // namespace idempotency::internal
