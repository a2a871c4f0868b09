#ifndef IDEMPOTENCY_SERVER_RPC_SESSION_OPTIONS_H_
#define IDEMPOTENCY_SERVER_RPC_SESSION_OPTIONS_H_

#include <cstddef>

#include "absl/time/time.h"

#include "grpc_idempotency/limits.h"
#include "server/limits.h"

namespace idempotency::internal {

struct SessionOptions {
  // Unanswered reservations and reads; further ones are answered OVERLOADED.
  std::size_t max_in_flight = limits::kMaxSessionInFlight;
  // A frame of answers, unless one answer alone is larger.
  std::size_t max_answer_frame_bytes = limits::kMaxAnswerFrameBytes;
  // Limits of unanswered operations of every kind, of their size, and of the
  // size of answers that are not yet sent. At any of them reading stops.
  std::size_t max_unanswered = limits::kMaxSessionUnanswered;
  std::size_t max_unanswered_bytes = limits::kMaxSessionUnansweredBytes;
  std::size_t max_unwritten_bytes = limits::kMaxSessionUnwrittenBytes;
  // Above this, replays and records are answered OVERLOADED: each operation that
  // was read before reading stopped could need a reply.
  std::size_t max_held_bytes = limits::kMaxSessionHeldBytes;
  // A caller has this long to read a frame of answers, or as many bytes of a larger one; then its
  // stream ends.
  absl::Duration write_timeout = limits::kPeerTimeout;
  // The first frame after that is answered with `draining`: the caller continues
  // with another stream, which gets another connection if this one is to end.
  absl::Duration max_age = absl::InfiniteDuration();
  // Operations of one frame, cancels included. As many as may be unanswered: more
  // could not begin.
  std::size_t max_frame_operations = limits::kMaxSessionUnanswered;
  // The memory limit of a parsed frame (server/rpc/frame_bounds.h). The largest that a
  // guard sends is a streamed reply of limits::kMaxReplyBytes whose messages are
  // all empty.
  std::size_t max_frame_parsed_bytes = 4 * limits::kMaxMessageBytes;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_SESSION_OPTIONS_H_
