#include "grpc_idempotency/idempotency_key.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"

namespace idempotency {

using internal::AbslView;

namespace {

// `source` is the place of the key.
absl::Status Invalid(std::string_view source, std::string_view what) {
  return MakeError(Reason::kKeyInvalid, absl::StrCat(AbslView(source), ": ", AbslView(what)));
}

absl::Status Missing(std::string_view where) {
  return MakeError(Reason::kKeyMissing,
                   absl::StrCat("this method needs ", AbslView(where),
                                ": one key per operation, the same on every retry"));
}

// `text` starts with '"'. RFC 8941, section 4.2.5.
absl::StatusOr<std::string> Unquote(std::string_view text) {
  std::string key;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      if (i + 1 == text.size()) return key;
      return Invalid(kKeyMetadata, "characters follow the closing quote");
    }
    if (text[i] == '\\') {
      ++i;
      if (i == text.size() || (text[i] != '"' && text[i] != '\\')) {
        return Invalid(kKeyMetadata, "in quotes, a backslash may only precede '\"' or '\\'");
      }
    }
    key.push_back(text[i]);
  }
  return Invalid(kKeyMetadata, "the closing quote is missing");
}

bool NeedsQuotes(std::string_view text) {
  // Not find_first_of(): it searches its set anew for each character.
  return std::any_of(text.begin(), text.end(), [](char c) { return c == '"' || c == ','; });
}

absl::StatusOr<std::string> CheckKey(std::string_view source, std::string_view key) {
  if (key.empty()) return Invalid(source, "the key is empty");
  if (key.size() > limits::kMaxKeyBytes) {
    return Invalid(source,
                   absl::StrCat("the key is longer than ", limits::kMaxKeyBytes, " characters"));
  }
  if (!std::all_of(key.begin(), key.end(), [](char c) { return c >= 0x21 && c <= 0x7E; })) {
    return Invalid(source, "the key has characters other than visible ASCII");
  }
  return NormaliseKey(key);
}

absl::StatusOr<std::string> ParseOne(std::string_view value) {
  if (!value.empty() && value.front() == '"') {
    const absl::StatusOr<std::string> key = Unquote(value);
    return key.ok() ? CheckKey(kKeyMetadata, *key) : key;
  }
  if (NeedsQuotes(value)) return Invalid(kKeyMetadata, "a key with '\"' or ',' must be quoted");
  return CheckKey(kKeyMetadata, value);
}

absl::StatusOr<std::string> ParseField(const KeyInField& field) {
  if (NeedsQuotes(field.value)) {
    return Invalid(field.name, "a key in a field is not quoted and has no '\"' or ','");
  }
  return CheckKey(field.name, field.value);
}

}  // namespace

absl::StatusOr<std::string> ParseIdempotencyKey(absl::Span<const std::string_view> values) {
  if (values.empty()) return Missing(absl::StrCat("the metadata entry ", AbslView(kKeyMetadata)));
  absl::StatusOr<std::string> key = ParseOne(values.front());
  if (!key.ok()) return key;
  for (const std::string_view value : values.subspan(1)) {
    const absl::StatusOr<std::string> other = ParseOne(value);
    if (!other.ok()) return other;
    if (*other != *key) return Invalid(kKeyMetadata, "the call carries several different keys");
  }
  return key;
}

absl::StatusOr<std::string> ParseIdempotencyKey(absl::Span<const std::string_view> values,
                                                const KeyInField& field) {
  if (values.empty() && field.value.empty()) {
    return Missing(absl::StrCat("the request's field ", AbslView(field.name),
                                " or the metadata entry ", AbslView(kKeyMetadata)));
  }
  if (field.value.empty()) return ParseIdempotencyKey(values);
  absl::StatusOr<std::string> key = ParseField(field);
  if (!key.ok() || values.empty()) return key;
  const absl::StatusOr<std::string> other = ParseIdempotencyKey(values);
  if (!other.ok()) return other;
  if (*other != *key) {
    return Invalid(field.name, absl::StrCat("the request's key and the one in the metadata entry ",
                                            AbslView(kKeyMetadata), " differ"));
  }
  return key;
}

}  // namespace idempotency
