#include "core/declared_policy.h"

namespace idempotency::internal {

using google::protobuf::MethodDescriptor;
using google::protobuf::MethodOptions;

absl::StatusOr<v1::Policy> DeclaredPolicy(const MethodOptions& options) {
  if (options.HasExtension(v1::policy)) return options.GetExtension(v1::policy);
  if (options.unknown_fields().empty()) return v1::Policy();
  // A descriptor that was built before this library was loaded has the option
  // among its unknown fields.
  MethodOptions known;
  if (!known.ParsePartialFromString(options.SerializePartialAsString())) {
    return absl::InvalidArgumentError("the option (idempotency.v1.policy) cannot be read");
  }
  return known.GetExtension(v1::policy);
}

bool IsHarmlessToRepeat(const MethodDescriptor& method) {
  const auto level = method.options().idempotency_level();
  return level == MethodOptions::NO_SIDE_EFFECTS || level == MethodOptions::IDEMPOTENT;
}

v1::Policy::Key KeyRule(const MethodDescriptor& method, const v1::Policy& declared) {
  if (declared.key() != v1::Policy::KEY_UNSPECIFIED) return declared.key();
  if (IsHarmlessToRepeat(method)) return v1::Policy::KEY_NONE;
  const bool streaming = method.client_streaming() || method.server_streaming();
  if (streaming && declared.stream() == v1::Policy::STREAM_UNSPECIFIED) {
    return v1::Policy::KEY_NONE;
  }
  return v1::Policy::KEY_REQUIRED;
}

bool IsDeclaredGuarded(const MethodDescriptor& method) {
  const absl::StatusOr<v1::Policy> declared = DeclaredPolicy(method.options());
  return declared.ok() && declared->ByteSizeLong() > 0 &&
         KeyRule(method, *declared) != v1::Policy::KEY_NONE;
}

}  // namespace idempotency::internal
