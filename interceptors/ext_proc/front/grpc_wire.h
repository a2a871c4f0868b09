// gRPC over HTTP/2, as https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md specifies it:
// messages in a body, status messages and binary values in headers. Thread-safe.
#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_FRONT_GRPC_WIRE_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_FRONT_GRPC_WIRE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"

namespace idempotency::internal {

// The messages of a body.
struct GrpcMessages {
  std::vector<std::string_view> messages;
  // One of them is compressed.
  bool compressed = false;
};

// nullopt if the body is not a sequence of whole messages. The result points into `body`.
std::optional<GrpcMessages> ReadGrpcMessages(std::string_view body);
void AppendGrpcMessage(std::string_view message, std::string& body);

// The header grpc-message: percent-encoded.
std::string EncodeStatusMessage(std::string_view message);
// Lenient, as the specification requires: what is not a valid escape stays.
std::string DecodeStatusMessage(std::string_view encoded);

// True for "x-bin".
bool IsBinaryHeader(std::string_view name);
std::string EncodeBinaryHeader(std::string_view value);
// nullopt if it is not base64, padded or not.
std::optional<std::string> DecodeBinaryHeader(std::string_view encoded);

// The header grpc-timeout: "100m". Infinite if it is malformed.
absl::Duration ParseGrpcTimeout(std::string_view text);

// The content types whose messages are protobuf's: "application/grpc", "application/grpc+proto",
// each with or without parameters.
bool IsGrpcContentType(std::string_view content_type);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_FRONT_GRPC_WIRE_H_
