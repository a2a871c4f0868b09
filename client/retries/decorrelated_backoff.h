#ifndef IDEMPOTENCY_CLIENT_RETRIES_DECORRELATED_BACKOFF_H_
#define IDEMPOTENCY_CLIENT_RETRIES_DECORRELATED_BACKOFF_H_

#include <algorithm>

#include "absl/random/random.h"
#include "absl/time/time.h"

namespace idempotency::internal {

// Pauses with decorrelated jitter: each is drawn between the shortest one and
// three times the one before, and cut at the longest. Callers that failed
// together spread at once and stay spread. Source: Marc Brooker, "Exponential
// Backoff And Jitter", AWS Architecture Blog, 2015. For the tries of callers, which are many and
// have a floor from the server; core/backoff.h is for repeats inside a process.
//
// Thread-compatible.
class DecorrelatedBackoff {
 public:
  // `shortest` is 1 ms to 1 h, `longest` that to a year; a value outside counts
  // as the bound.
  DecorrelatedBackoff(absl::Duration shortest, absl::Duration longest)
      : shortest_(std::clamp(shortest, absl::Milliseconds(1), absl::Hours(1))),
        longest_(std::clamp(longest, shortest_, absl::Hours(24 * 365))),
        drawn_(shortest_) {}

  // The next pause, at least `floor`. A pause that the floor determines is
  // longer by up to `shortest`, so that callers with the same floor do not
  // return in the same instant. The floor does not lengthen later pauses: it
  // applies to this one only.
  absl::Duration Next(absl::Duration floor) {
    drawn_ = std::min(longest_, Between(shortest_, drawn_ * 3));
    if (drawn_ >= floor) return drawn_;
    return floor + Between(absl::ZeroDuration(), shortest_);
  }

 private:
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    return low + (high - low) * absl::Uniform(random_, 0.0, 1.0);
  }

  absl::InsecureBitGen random_;
  const absl::Duration shortest_;
  const absl::Duration longest_;
  absl::Duration drawn_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_RETRIES_DECORRELATED_BACKOFF_H_
