#ifndef IDEMPOTENCY_CLIENT_CONNECTION_SESSION_FRAME_H_
#define IDEMPOTENCY_CLIENT_CONNECTION_SESSION_FRAME_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace idempotency::internal {

// A serialised v1.SessionRequest that grows by one operation at a time: in
// protobuf's encoding its operations simply follow each other. So a request is
// serialised once, by the requesting thread, and copied into each frame that
// carries it.
//
// Not thread-safe.
class SessionFrame {
 public:
  // Absent: the operation waits as long as its stream lasts.
  using Timeout = std::optional<std::chrono::nanoseconds>;

  // An operation of `body`: a field of v1.SessionOperation, with its tag.
  void Add(std::uint64_t id, Timeout timeout, std::string_view body);
  void AddCancel(std::uint64_t id);

  // The maximum growth of the frame by an operation of this size.
  static std::size_t Weight(std::size_t body_bytes) { return body_bytes + kMaxOverheadBytes; }

  // The expected size.
  void Reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  bool empty() const { return bytes_.empty(); }
  std::size_t size() const { return bytes_.size(); }
  std::string Take() && { return std::move(bytes_); }

 private:
  // Its own tag and length, its id, its timeout.
  static constexpr std::size_t kMaxOverheadBytes = 48;

  std::string bytes_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_CONNECTION_SESSION_FRAME_H_
