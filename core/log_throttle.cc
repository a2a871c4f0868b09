#include "core/log_throttle.h"

#include <utility>

namespace idempotency::internal {

std::optional<std::int64_t> LogThrottle::Admit() {
  const auto now = clock_.Monotonic();
  MutexLock lock(mutex_);
  if (next_.has_value() && now < *next_) {
    ++left_out_;
    return std::nullopt;
  }
  next_ = now + std::chrono::seconds(1);
  return std::exchange(left_out_, 0);
}

}  // namespace idempotency::internal
