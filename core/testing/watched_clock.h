#ifndef IDEMPOTENCY_CORE_TESTING_WATCHED_CLOCK_H_
#define IDEMPOTENCY_CORE_TESTING_WATCHED_CLOCK_H_

#include <chrono>
#include <functional>
#include <utility>

#include "absl/time/time.h"

#include "core/clock.h"

namespace idempotency::internal {

// The times of another clock, with a hook at each read. Thread-safe if the hook is.
class WatchedClock final : public Clock {
 public:
  // `clock` outlives it. `on_read` runs on the reader's thread before each time is read.
  WatchedClock(const Clock& clock, std::function<void()> on_read)
      : clock_(clock), on_read_(std::move(on_read)) {}

  absl::Time Now() const override {
    on_read_();
    return clock_.Now();
  }
  std::chrono::steady_clock::time_point Monotonic() const override {
    on_read_();
    return clock_.Monotonic();
  }

 private:
  const Clock& clock_;
  const std::function<void()> on_read_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_TESTING_WATCHED_CLOCK_H_
