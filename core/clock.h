#ifndef IDEMPOTENCY_CORE_CLOCK_H_
#define IDEMPOTENCY_CORE_CLOCK_H_

#include <chrono>

#include "absl/time/time.h"

namespace idempotency::internal {

// The source of time of each part, so that tests can set it. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Wall time, for the timestamps of stores that run in this process. May jump.
  virtual absl::Time Now() const = 0;
  // Monotonic time, for waiting and lease deadlines. Never jumps, unrelated to
  // the date.
  virtual std::chrono::steady_clock::time_point Monotonic() const = 0;

  // The process's own clock. Never destroyed.
  static const Clock& System();
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_CLOCK_H_
