#ifndef IDEMPOTENCY_SERVER_RPC_FRAME_BOUNDS_H_
#define IDEMPOTENCY_SERVER_RPC_FRAME_BOUNDS_H_

#include <google/protobuf/descriptor.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace idempotency::internal {

// Bounds of what the bytes of one frame become once parsed. Two bytes on the wire can
// be an operation, which takes a kilobyte, or a field, which takes some dozen bytes.
struct FrameBounds {
  std::size_t max_operations;
  // The frame's bytes, and kFieldBytes (core/field_memory.h) for each field at any depth.
  std::size_t max_parsed_bytes;
};

// Examine the bytes of a message, without changing them, before anything is built
// from them. Unknown fields count as known ones. They take no memory, and no more
// time than it takes to reach a bound.

// Checks a v1.SessionRequest. OK if parsing it stays within the bounds; otherwise
// REQUEST_INVALID: over a bound, or no fields at all.
absl::Status CheckFrame(grpc::ByteBuffer& frame, const FrameBounds& bounds);

// The memory of the request of a unary method, which is a `type`, once it is
// parsed, as FrameBounds counts it. The fields of a request under
// kCountedRequestBytes are counted only where they could reach the bound:
// otherwise the size is that of its bytes. REQUEST_INVALID as above, over
// `max_parsed_bytes`.
absl::StatusOr<std::size_t> ParsedBytes(grpc::ByteBuffer& request,
                                        const google::protobuf::Descriptor& type,
                                        std::size_t max_parsed_bytes);
// Without its fields, such a request is under-estimated by 1.5 MiB at most.
inline constexpr std::size_t kCountedRequestBytes = 64 * 1024;

// REQUEST_INVALID, for a frame that is not a SessionRequest.
absl::Status UnreadableFrame();
// The same, for a request that is not a message of its method.
absl::Status UnreadableRequest();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_FRAME_BOUNDS_H_
