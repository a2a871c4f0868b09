#ifndef IDEMPOTENCY_SERVER_TESTING_MANUAL_CLOCK_H_
#define IDEMPOTENCY_SERVER_TESTING_MANUAL_CLOCK_H_

#include <chrono>

#include "absl/time/time.h"

#include "core/clock.h"
#include "core/mutex.h"

namespace idempotency::internal {

// Stands still until it is moved. Thread-safe.
class ManualClock final : public Clock {
 public:
  absl::Time Now() const override {
    MutexLock lock(mutex_);
    return absl::FromUnixSeconds(1'700'000'000) + passed_;
  }
  std::chrono::steady_clock::time_point Monotonic() const override {
    MutexLock lock(mutex_);
    return std::chrono::steady_clock::time_point(std::chrono::hours(1)) +
           absl::ToChronoNanoseconds(passed_);
  }

  void Advance(absl::Duration by) {
    MutexLock lock(mutex_);
    passed_ += by;
  }

 private:
  mutable Mutex mutex_;
  absl::Duration passed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_TESTING_MANUAL_CLOCK_H_
