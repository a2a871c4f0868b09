#ifndef GRPC_IDEMPOTENCY_FINGERPRINT_INPUT_H_
#define GRPC_IDEMPOTENCY_FINGERPRINT_INPUT_H_

#include <map>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace idempotency {

// A field of a message, or of a message nested in it: the fields on the path to it, all
// singular. Empty: no field.
using FieldPath = absl::Span<const google::protobuf::FieldDescriptor* const>;

// The input of a fingerprint. The data that it points to must outlive it and must not change
// meanwhile.
struct FingerprintInput {
  // Maps a name in lower case to its values, in the order of their arrival. Values of a "-bin"
  // entry are decoded.
  using Metadata = std::map<std::string_view, std::vector<std::string_view>>;

  // The full method name, "/payments.v1.Payments/Charge", or MethodConfig::operation in its place.
  std::string_view method;
  const google::protobuf::Message& request;
  // The request's field that carries the key; it is excluded from the fingerprint.
  FieldPath key_field = {};
  // The metadata entries that belong to the request; only those that the call has.
  Metadata metadata = {};
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_FINGERPRINT_INPUT_H_
