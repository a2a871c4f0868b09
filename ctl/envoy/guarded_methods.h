#ifndef IDEMPOTENCY_CTL_ENVOY_GUARDED_METHODS_H_
#define IDEMPOTENCY_CTL_ENVOY_GUARDED_METHODS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace idempotency::internal {

// The methods of a descriptor set, sorted by name as `package.Service/Method`.
struct MethodsOfDescriptors {
  // Unary methods that take a key: by the option (idempotency.v1.policy), otherwise each one that
  // is neither NO_SIDE_EFFECTS nor IDEMPOTENT (protobuf's idempotency_level).
  std::vector<std::string> guarded;
  // Methods with a stream of requests or replies. A proxy cannot guard them: it would hold the
  // headers until the last request has arrived.
  std::vector<std::string> streaming;
  // The methods of `streaming` whose option demands a guard.
  std::vector<std::string> streaming_with_policy;
};

// `bytes` is a serialised google.protobuf.FileDescriptorSet, as of
// `protoc --include_imports --descriptor_set_out`. INVALID_ARGUMENT if it is none, or if it has no
// service.
absl::StatusOr<MethodsOfDescriptors> ReadDescriptors(absl::string_view bytes);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_ENVOY_GUARDED_METHODS_H_
