#ifndef GRPC_IDEMPOTENCY_FINGERPRINT_INPUT_H_
#define GRPC_IDEMPOTENCY_FINGERPRINT_INPUT_H_

#include <map>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace idempotency {

// A field of a message or of a message in it: the fields that lead there, all
// singular. Empty for none.
using FieldPath = absl::Span<const google::protobuf::FieldDescriptor* const>;

// Everything that a fingerprint is computed from. What it points to must
// outlive it and not change meanwhile.
struct FingerprintInput {
  // Name, in lower case, and its values in the order in which they came; those
  // of a "-bin" entry decoded.
  using Metadata = std::map<std::string_view, std::vector<std::string_view>>;

  // gRPC's name: "/payments.v1.Payments/Charge".
  std::string_view method;
  const google::protobuf::Message& request;
  // The request's field that carries the key, which is no part of the request.
  FieldPath key_field = {};
  // Entries that belong to the request; only those that the call has.
  Metadata metadata = {};
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_FINGERPRINT_INPUT_H_
