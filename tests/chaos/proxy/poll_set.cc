#include "tests/chaos/proxy/poll_set.h"

#include <algorithm>

namespace idempotency::internal::chaos {

void PollSet::Clear() {
  fds_.clear();
  wake_at_.reset();
}

PollSet::Slot PollSet::Add(int fd, short events) {
  if (events == 0 || fd < 0) return kNone;
  fds_.push_back({fd, events, 0});
  return fds_.size() - 1;
}

void PollSet::WakeAt(Clock::time_point when) {
  wake_at_ = wake_at_.has_value() ? std::min(*wake_at_, when) : when;
}

void PollSet::Wait() {
  int timeout_ms = -1;
  if (wake_at_.has_value()) {
    // Rounded up: waking before the time would cost one more turn without work.
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*wake_at_ - Clock::now());
    timeout_ms = static_cast<int>(std::clamp<long>(left.count(), 0, 60'000));
  }
  // Interrupted: nothing is ready, and the next turn follows at once.
  if (poll(fds_.data(), fds_.size(), timeout_ms) < 0) {
    for (pollfd& fd : fds_) fd.revents = 0;
  }
}

short PollSet::Ready(Slot slot) const { return slot == kNone ? short{0} : fds_[slot].revents; }

}  // namespace idempotency::internal::chaos
