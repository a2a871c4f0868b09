#ifndef IDEMPOTENCY_CORE_TESTING_MANUAL_CLOCK_H_
#define IDEMPOTENCY_CORE_TESTING_MANUAL_CLOCK_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/time/time.h"

#include "core/clock.h"

namespace idempotency::internal {

// Both times stand still until a test moves them: together, or separately, as when an operator sets
// the date or a machine is suspended. Thread-safe.
class ManualClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::FromUnixMicros(wall_micros_); }
  std::chrono::steady_clock::time_point Monotonic() const override {
    return std::chrono::steady_clock::time_point(std::chrono::microseconds(monotonic_micros_));
  }

  // Whole microseconds.
  void Advance(absl::Duration by) {
    StepWall(by);
    AdvanceMonotonic(by);
  }
  void StepWall(absl::Duration by) { wall_micros_ += absl::ToInt64Microseconds(by); }
  void AdvanceMonotonic(absl::Duration by) { monotonic_micros_ += absl::ToInt64Microseconds(by); }

 private:
  // 2026-01-01, and an hour since the start.
  std::atomic<std::int64_t> wall_micros_{1767225600000000};
  std::atomic<std::int64_t> monotonic_micros_{3600000000};
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_TESTING_MANUAL_CLOCK_H_
