#ifndef IDEMPOTENCY_TESTS_CONFORMANCE_MANUAL_CLOCK_H_
#define IDEMPOTENCY_TESTS_CONFORMANCE_MANUAL_CLOCK_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/time/time.h"

#include "core/clock.h"

namespace idempotency::internal {

// Stands still until it is advanced. Thread-safe.
class ManualClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::FromUnixMicros(micros_); }
  std::chrono::steady_clock::time_point Monotonic() const override {
    return std::chrono::steady_clock::time_point(std::chrono::microseconds(micros_));
  }
  void Advance(absl::Duration duration) { micros_ += absl::ToInt64Microseconds(duration); }

 private:
  // 2026-01-01.
  std::atomic<std::int64_t> micros_{1767225600000000};
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TESTS_CONFORMANCE_MANUAL_CLOCK_H_
