#ifndef IDEMPOTENCY_CORE_LOG_THROTTLE_H_
#define IDEMPOTENCY_CORE_LOG_THROTTLE_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"

#include "core/clock.h"
#include "core/mutex.h"

namespace idempotency::internal {

// Admits one event per second to the log, so that a fault of one client cannot
// fill the disk. Thread-safe.
class LogThrottle {
 public:
  // `clock` must outlive it.
  explicit LogThrottle(const Clock& clock = Clock::System()) : clock_(clock) {}

  // nullopt: suppress this one. Otherwise log it, with the number of those
  // suppressed before it.
  std::optional<std::int64_t> Admit();

 private:
  const Clock& clock_;
  Mutex mutex_;
  std::optional<std::chrono::steady_clock::time_point> next_ ABSL_GUARDED_BY(mutex_);
  std::int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_LOG_THROTTLE_H_
