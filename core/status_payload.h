#ifndef IDEMPOTENCY_CORE_STATUS_PAYLOAD_H_
#define IDEMPOTENCY_CORE_STATUS_PAYLOAD_H_

#include <string_view>

namespace idempotency::internal {

// The payload of an absl::Status with its details: a serialised
// google.rpc.Status, exactly the bytes of grpc-status-details-bin.
inline constexpr std::string_view kStatusPayloadUrl = "type.googleapis.com/google.rpc.Status";

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_STATUS_PAYLOAD_H_
