#include "core/idempotency_key.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/errors.h"
#include "core/limits.h"
#include "core/record_key.h"

namespace idempotency {
namespace {

absl::Status Invalid(std::string_view what) {
  return MakeError(Reason::kKeyInvalid, absl::StrCat(AbslView(kKeyMetadata), ": ", AbslView(what)));
}

// `text` starts with '"'. RFC 8941, section 4.2.5.
absl::StatusOr<std::string> Unquote(std::string_view text) {
  std::string key;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      if (i + 1 == text.size()) return key;
      return Invalid("something follows the closing quote");
    }
    if (text[i] == '\\') {
      ++i;
      if (i == text.size() || (text[i] != '"' && text[i] != '\\')) {
        return Invalid("in quotes, a backslash stands before '\"' or '\\' only");
      }
    }
    key.push_back(text[i]);
  }
  return Invalid("the closing quote is missing");
}

absl::StatusOr<std::string> TextOf(std::string_view value) {
  if (!value.empty() && value.front() == '"') return Unquote(value);
  if (value.find_first_of("\",") != std::string_view::npos) {
    return Invalid("a key with '\"' or ',' must be quoted");
  }
  return std::string(value);
}

absl::StatusOr<std::string> ParseOne(std::string_view value) {
  absl::StatusOr<std::string> key = TextOf(value);
  if (!key.ok()) return key;
  if (key->empty()) return Invalid("the key is empty");
  if (key->size() > limits::kMaxKeyBytes) {
    return Invalid(absl::StrCat("the key is longer than ", limits::kMaxKeyBytes, " characters"));
  }
  if (!std::all_of(key->begin(), key->end(), [](char c) { return c >= 0x21 && c <= 0x7E; })) {
    return Invalid("the key has characters other than visible ASCII");
  }
  return NormaliseKey(*key);
}

}  // namespace

absl::StatusOr<std::string> ParseIdempotencyKey(absl::Span<const std::string_view> values) {
  if (values.empty()) {
    return MakeError(Reason::kKeyMissing,
                     absl::StrCat("this method needs the metadata entry ", AbslView(kKeyMetadata),
                                  ": one key per operation, the same on every retry"));
  }
  absl::StatusOr<std::string> key = ParseOne(values.front());
  if (!key.ok()) return key;
  for (const std::string_view value : values.subspan(1)) {
    const absl::StatusOr<std::string> other = ParseOne(value);
    if (!other.ok()) return other;
    if (*other != *key) return Invalid("the call carries several different keys");
  }
  return key;
}

}  // namespace idempotency
