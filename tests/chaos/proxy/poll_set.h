#ifndef IDEMPOTENCY_TESTS_CHAOS_PROXY_POLL_SET_H_
#define IDEMPOTENCY_TESTS_CHAOS_PROXY_POLL_SET_H_

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

namespace idempotency::internal::chaos {

using Clock = std::chrono::steady_clock;

// The events that one turn of the loop waits for. Filled again for each. Thread-compatible.
class PollSet {
 public:
  // The argument of Ready(). For this turn only.
  using Slot = std::size_t;
  static constexpr Slot kNone = static_cast<Slot>(-1);

  void Clear();
  // Without events the socket is not polled, not even for errors: a stalled socket whose peer has
  // closed would keep the loop turning.
  Slot Add(int fd, short events);
  // The turn ends at `when` at the latest.
  void WakeAt(Clock::time_point when);
  void Wait();
  // The result of poll for that slot; 0 for kNone.
  short Ready(Slot slot) const;

 private:
  std::vector<pollfd> fds_;
  std::optional<Clock::time_point> wake_at_;
};

}  // namespace idempotency::internal::chaos

#endif  // IDEMPOTENCY_TESTS_CHAOS_PROXY_POLL_SET_H_
