#include "grpc_idempotency/deadline.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace idempotency {

SteadyTime After(SteadyTime start, absl::Duration wait) {
  // Durations of the standard library overflow.
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  const std::int64_t nanos = absl::ToInt64Nanoseconds(wait);
  std::int64_t since_epoch = 0;
  if (nanos == kMost || nanos == kLeast ||
      __builtin_add_overflow(start.time_since_epoch().count(), nanos, &since_epoch)) {
    return nanos > 0 ? kNever : SteadyTime::min();
  }
  return SteadyTime(std::chrono::nanoseconds(since_epoch));
}

absl::Duration TimeUntil(SteadyTime deadline, SteadyTime now) {
  if (deadline == kNever) return absl::InfiniteDuration();
  return absl::FromChrono(deadline.time_since_epoch()) - absl::FromChrono(now.time_since_epoch());
}

absl::Duration TimeUntil(gpr_timespec deadline) {
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) {
    return absl::InfiniteDuration();
  }
  if (gpr_time_cmp(deadline, gpr_inf_past(deadline.clock_type)) == 0) {
    return -absl::InfiniteDuration();
  }
  const gpr_timespec now = gpr_now(deadline.clock_type);
  return absl::Seconds(deadline.tv_sec) - absl::Seconds(now.tv_sec) +
         absl::Nanoseconds(deadline.tv_nsec) - absl::Nanoseconds(now.tv_nsec);
}

SteadyTime SteadyDeadline(gpr_timespec deadline, SteadyTime now) {
  return After(now, TimeUntil(deadline));
}

SteadyTime DeadlineIn(absl::Duration wait) { return After(std::chrono::steady_clock::now(), wait); }

SteadyTime SteadyDeadline(gpr_timespec deadline) {
  return SteadyDeadline(deadline, std::chrono::steady_clock::now());
}

gpr_timespec GrpcDeadlineIn(absl::Duration wait) {
  if (wait == absl::InfiniteDuration()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  const absl::Duration shortest = absl::ZeroDuration();
  const std::int64_t nanos = absl::ToInt64Nanoseconds(std::max(wait, shortest));
  // gpr_time_add saturates.
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(nanos, GPR_TIMESPAN));
}

}  // namespace idempotency
