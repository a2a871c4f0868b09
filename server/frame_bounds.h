#ifndef IDEMPOTENCY_SERVER_FRAME_BOUNDS_H_
#define IDEMPOTENCY_SERVER_FRAME_BOUNDS_H_

#include <google/protobuf/descriptor.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace idempotency::internal {

// What the bytes of one frame may make of themselves. Two bytes on the wire can be an
// operation, which takes a kilobyte, or a field, which takes some dozen bytes.
struct FrameBounds {
  std::size_t max_operations;
  // The frame's bytes, and kFieldBytes for each field at any depth.
  std::size_t max_parsed_bytes;
};

// What a parsed field takes beside its bytes: a string's or a small message's own
// size, and the pointer to it.
inline constexpr std::size_t kFieldBytes = 48;

// Look through the bytes of a message, which they leave as they are, before anything
// is built from them. Fields that are not known count as those that are. They take no
// memory, and no more time than it takes to reach a bound.

// Of a v1.SessionRequest. OK if parsing it stays within the bounds; otherwise
// REQUEST_INVALID: over a bound, or no fields at all.
absl::Status CheckFrame(grpc::ByteBuffer& frame, const FrameBounds& bounds);

// Of the request of a unary method, which is a `type`: what it takes once it is
// parsed, as FrameBounds counts that. The fields of a request under
// kCountedRequestBytes are counted only where they could reach the bound: it is
// taken to be its bytes. REQUEST_INVALID as above, over `max_parsed_bytes`.
absl::StatusOr<std::size_t> ParsedBytes(grpc::ByteBuffer& request,
                                        const google::protobuf::Descriptor& type,
                                        std::size_t max_parsed_bytes);
// Without its fields, such a request is under-estimated by 1.5 MiB at most.
inline constexpr std::size_t kCountedRequestBytes = 64 * 1024;

// REQUEST_INVALID, for a frame that is no SessionRequest.
absl::Status UnreadableFrame();
// The same, for a request that is no message of its method.
absl::Status UnreadableRequest();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_FRAME_BOUNDS_H_
