#ifndef IDEMPOTENCY_SERVER_RPC_ANSWER_FRAMES_H_
#define IDEMPOTENCY_SERVER_RPC_ANSWER_FRAMES_H_

#include <cstddef>
#include <deque>
#include <string>

#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {

// Answers of a session as the bytes of SessionResponse frames. Bytes of such
// messages, one behind the other, are the bytes of one that holds the fields of
// both: so answers that several threads encoded are sent in one frame without
// further encoding.
//
// Not thread-safe.
class AnswerFrames {
 public:
  // A frame has at most `max_frame_bytes`, unless one answer alone is larger.
  explicit AnswerFrames(std::size_t max_frame_bytes) : max_frame_bytes_(max_frame_bytes) {}

  // Fields other than the answers.
  void Append(const v1::SessionResponse& fields);
  void Append(const v1::SessionAnswer& answer);
  void Append(AnswerFrames&& behind);

  bool empty() const { return frames_.empty(); }
  // The size of all of them.
  std::size_t bytes() const { return bytes_; }
  void Clear();
  // The next frame; there must be one.
  std::string Pop();

 private:
  // Room for `bytes` in the last frame, or in a new one.
  char* Grow(std::size_t bytes);

  const std::size_t max_frame_bytes_;
  std::deque<std::string> frames_;
  std::size_t bytes_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_ANSWER_FRAMES_H_
