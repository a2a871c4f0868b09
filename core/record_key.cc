#include "grpc_idempotency/record_key.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/field_faults.h"
#include "core/length_prefix.h"
#include "core/record_key_parts.h"
#include "core/sha256.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"

namespace idempotency {

using internal::AbslView;
using internal::AppendPart;
using internal::FieldFaults;
using internal::Sha256;
using internal::Sha256Digest;
using internal::ValidateNamespace;
using internal::ValidateOperation;
using internal::ValidateScope;

namespace {

// A lambda, not a function: std::all_of can inline it.
constexpr auto kIsVisibleAscii = [](char c) { return c >= 0x21 && c <= 0x7E; };
constexpr auto kIsUpperCase = [](char c) { return c >= 'A' && c <= 'Z'; };

absl::Status BadKey(Reason reason, std::string_view field, std::string_view description) {
  const std::string name = absl::StrCat(AbslView(field), ".key");
  ErrorDetails details;
  details.violations.push_back({name, std::string(description)});
  return MakeError(reason, absl::StrCat(name, ": ", AbslView(description)), std::move(details));
}

absl::Status ValidateKey(std::string_view key, std::string_view field) {
  if (key.empty()) return BadKey(Reason::kKeyMissing, field, "an idempotency key is required");
  if (key.size() > limits::kMaxKeyBytes || !std::all_of(key.begin(), key.end(), kIsVisibleAscii)) {
    return BadKey(Reason::kKeyInvalid, field,
                  absl::StrCat("must be 1-", limits::kMaxKeyBytes, " visible ASCII characters"));
  }
  return absl::OkStatus();
}

absl::Status ValidateParts(std::string_view name_space, std::string_view scope,
                           std::string_view operation, std::string_view key,
                           std::string_view field) {
  FieldFaults faults;
  faults.Add(ValidateNamespace(name_space, field));
  faults.Add(ValidateScope(scope, field));
  faults.Add(ValidateOperation(operation, field));
  faults.Add(ValidateKey(key, field));
  return faults.status();
}

Sha256Digest HashOf(const RecordKey& key) {
  std::string input;
  input.reserve(4 * 4 + key.name_space.size() + key.scope.size() + key.operation.size() +
                key.key.size());
  AppendPart(key.name_space, input);
  AppendPart(key.scope, input);
  AppendPart(key.operation, input);
  AppendPart(key.key, input);
  return Sha256(input);
}

}  // namespace

std::string NormaliseKey(std::string_view key) {
  std::string normal(key);
  // Nearly every UUID is in lower case already, as Uuid::ToString() writes it.
  if (std::any_of(key.begin(), key.end(), kIsUpperCase) && Uuid::Parse(key).has_value()) {
    absl::AsciiStrToLower(&normal);
  }
  return normal;
}

absl::Status ValidateRecordKey(const RecordKey& key, std::string_view field) {
  return ValidateParts(key.name_space, key.scope, key.operation, key.key, field);
}

absl::Status ValidateRecordKey(const v1::RecordKey& key, std::string_view field) {
  return ValidateParts(key.namespace_(), key.scope(), key.operation(), key.key(), field);
}

RecordId RecordIdFor(const RecordKey& key) {
  const Sha256Digest hash = HashOf(key);
  Uuid::Bytes id;
  const std::optional<Uuid> uuid = Uuid::Parse(key.key);
  if (uuid.has_value() && uuid->TimeOrderedAt().has_value()) {
    const auto after_time = std::copy_n(uuid->bytes().begin(), 6, id.begin());
    std::copy_n(hash.begin(), 10, after_time);
    id[0] &= 0x7F;
  } else {
    std::copy_n(hash.begin(), 16, id.begin());
    id[0] |= 0x80;
  }
  return RecordId(id);
}

std::optional<absl::Time> KeyTime(const RecordKey& key) {
  const std::optional<Uuid> uuid = Uuid::Parse(key.key);
  return uuid.has_value() ? uuid->TimeOrderedAt() : std::nullopt;
}

RecordKey FromProto(const v1::RecordKey& proto) {
  return {proto.namespace_(), proto.scope(), proto.operation(), NormaliseKey(proto.key())};
}

v1::RecordKey ToProto(const RecordKey& key) {
  v1::RecordKey proto;
  proto.set_namespace_(key.name_space);
  proto.set_scope(key.scope);
  proto.set_operation(key.operation);
  proto.set_key(key.key);
  return proto;
}

}  // namespace idempotency
