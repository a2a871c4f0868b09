#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_RELEASE_PAUSE_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_RELEASE_PAUSE_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace idempotency::internal {

// How long a record is not granted again after an attempt with an unknown outcome, if a second
// execution is acceptable: 1 s, 4 s, 16 s, then 60 s. The first is short enough for a brief
// failure. The second outlasts gRPC's own retries (5 tries within about 4 s, since a guard's
// pushback is 1 s at most): one call of a retrying client makes two executions at most, not
// five.
inline constexpr absl::Duration kFirstReleasePause = absl::Seconds(1);
inline constexpr int kReleasePauseGrowth = 4;
inline constexpr absl::Duration kLongestReleasePause = absl::Minutes(1);

// After `attempt`, counted from 1.
inline absl::Duration ReleasePause(std::uint32_t attempt) {
  absl::Duration pause = kFirstReleasePause;
  for (std::uint32_t i = 1; i < attempt && pause < kLongestReleasePause; ++i) {
    pause *= kReleasePauseGrowth;
  }
  return std::min(pause, kLongestReleasePause);
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_RELEASE_PAUSE_H_
