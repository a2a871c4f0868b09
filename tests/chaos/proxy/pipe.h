#ifndef IDEMPOTENCY_TESTS_CHAOS_PROXY_PIPE_H_
#define IDEMPOTENCY_TESTS_CHAOS_PROXY_PIPE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "tests/chaos/proxy/poll_set.h"

namespace idempotency::internal::chaos {

// The bytes of one direction in transit, each with the time before which it does not arrive.
// Thread-compatible.
class Pipe {
 public:
  static constexpr std::size_t kCapacity = 256 * 1024;

  // The number of further bytes that fit.
  std::size_t room() const { return kCapacity - size_; }
  bool empty() const { return pieces_.empty(); }
  // The source will send no more.
  bool ended() const { return ended_; }
  void End() { ended_ = true; }
  // The end has been passed on.
  bool finished() const { return finished_; }

  // Bytes stay in order: they are due with the last ones at the earliest.
  void Push(std::string_view bytes, Clock::time_point due);
  // When the next byte, or the end, may arrive; nullopt: there is none.
  std::optional<Clock::time_point> next_due() const;
  // Writes the due bytes, and then the end. False if the socket is broken.
  bool WriteTo(int socket, Clock::time_point now, std::uint64_t* written);
  void Discard();

 private:
  struct Piece {
    std::string bytes;
    std::size_t written;
    Clock::time_point due;
  };

  std::deque<Piece> pieces_;
  std::size_t size_ = 0;
  Clock::time_point last_due_{};
  bool ended_ = false;
  bool finished_ = false;
};

}  // namespace idempotency::internal::chaos

#endif  // IDEMPOTENCY_TESTS_CHAOS_PROXY_PIPE_H_
