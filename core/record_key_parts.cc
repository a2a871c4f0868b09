#include "core/record_key_parts.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/utf8.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

// A lambda, not a function: std::all_of can inline it.
constexpr auto kIsNamespaceCharacter = [](char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
};

std::string FieldOf(std::string_view path, std::string_view part) {
  if (path.empty()) return std::string(part);
  return absl::StrCat(AbslView(path), ".", AbslView(part));
}

absl::Status ValidateText(std::string_view text, std::size_t max_bytes, std::string_view path,
                          std::string_view part) {
  if (text.empty() || text.size() > max_bytes || !IsUtf8WithoutControls(text)) {
    return InvalidField(
        FieldOf(path, part),
        absl::StrCat("must be 1-", max_bytes, " bytes of UTF-8 without control characters"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateNamespace(std::string_view name_space, std::string_view path) {
  if (name_space.empty() || name_space.size() > limits::kMaxNamespaceBytes ||
      !std::all_of(name_space.begin(), name_space.end(), kIsNamespaceCharacter)) {
    return InvalidField(FieldOf(path, "namespace"),
                        absl::StrCat("must be 1-", limits::kMaxNamespaceBytes,
                                     " characters of a-z, 0-9, '.', '_' and '-'"));
  }
  return absl::OkStatus();
}

absl::Status ValidateScope(std::string_view scope, std::string_view path) {
  return ValidateText(scope, limits::kMaxScopeBytes, path, "scope");
}

absl::Status ValidateOperation(std::string_view operation, std::string_view path) {
  return ValidateText(operation, limits::kMaxOperationBytes, path, "operation");
}

}  // namespace idempotency::internal
