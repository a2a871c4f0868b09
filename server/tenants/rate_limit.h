#ifndef IDEMPOTENCY_SERVER_TENANTS_RATE_LIMIT_H_
#define IDEMPOTENCY_SERVER_TENANTS_RATE_LIMIT_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "absl/time/time.h"

namespace idempotency::internal {

// Admits events at a rate, and bursts after pauses: the virtual scheduling form of the generic cell
// rate algorithm (ITU-T I.371), which keeps one time instead of a count. Thread-compatible.
class RateLimit {
 public:
  // At most `rate` events per second, and `burst` at once after a pause; both over 0.
  RateLimit(double rate, std::uint32_t burst)
      : interval_(absl::Seconds(1) / rate), tolerance_(interval_ * (burst - 1)) {}

  // Zero: the event is admitted. Otherwise it is not, and this is the time until one would be.
  absl::Duration Admit(std::chrono::steady_clock::time_point now) {
    const absl::Duration at = absl::FromChrono(now.time_since_epoch());
    const absl::Duration early = due_ - tolerance_ - at;
    if (early > absl::ZeroDuration()) return early;
    due_ = std::max(due_, at) + interval_;
    return absl::ZeroDuration();
  }

 private:
  absl::Duration interval_;
  absl::Duration tolerance_;
  // When the next event is due at the rate, since the clock's epoch.
  absl::Duration due_ = -absl::InfiniteDuration();
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_TENANTS_RATE_LIMIT_H_
