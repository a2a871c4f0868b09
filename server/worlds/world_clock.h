#ifndef IDEMPOTENCY_SERVER_WORLDS_WORLD_CLOCK_H_
#define IDEMPOTENCY_SERVER_WORLDS_WORLD_CLOCK_H_

#include <chrono>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

#include "core/clock.h"
#include "core/mutex.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {

// The machine's clock, with a wall time that is moved forward: that of a store. What waits for
// calls uses the machine's, as their deadlines do. Thread-safe.
class WorldClock final : public Clock {
 public:
  // A clock is moved by no more in total.
  static constexpr absl::Duration kMaxAhead = absl::Hours(24 * 3660);

  absl::Time Now() const override ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    return Clock::System().Now() + ahead_;
  }
  std::chrono::steady_clock::time_point Monotonic() const override {
    return Clock::System().Monotonic();
  }

  // INVALID_ARGUMENT / REQUEST_INVALID if `by` is not positive, or is too much in total.
  absl::Status Advance(absl::Duration by) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    if (by <= absl::ZeroDuration()) {
      return MakeError(Reason::kRequestInvalid,
                       "by: must be more than zero; a clock moves forward only");
    }
    if (by > kMaxAhead - ahead_) {
      return MakeError(Reason::kRequestInvalid,
                       "by: the clock would be more than 10 years ahead; use another world");
    }
    ahead_ += by;
    return absl::OkStatus();
  }
  // The machine's time.
  void Reset() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    ahead_ = absl::ZeroDuration();
  }

 private:
  mutable Mutex mutex_;
  absl::Duration ahead_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_WORLDS_WORLD_CLOCK_H_
