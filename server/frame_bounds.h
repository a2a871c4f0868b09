#ifndef IDEMPOTENCY_SERVER_FRAME_BOUNDS_H_
#define IDEMPOTENCY_SERVER_FRAME_BOUNDS_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>

#include "absl/status/status.h"

namespace idempotency {

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

// Looks through the bytes of a v1.SessionRequest, which it leaves as they are,
// before anything is built from them. OK if parsing them stays within the bounds;
// otherwise REQUEST_INVALID: over a bound, or no fields at all. Fields that are not
// known count as those that are. Takes no memory, and no more time than it takes to
// reach a bound.
absl::Status CheckFrame(grpc::ByteBuffer& frame, const FrameBounds& bounds);

// REQUEST_INVALID, for a frame that is no SessionRequest.
absl::Status UnreadableFrame();

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_FRAME_BOUNDS_H_
