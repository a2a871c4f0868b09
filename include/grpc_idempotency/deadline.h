// The one type of every deadline in this library: a point on the monotonic clock, which no
// step of the wall clock moves.
//
// Clocks count nanoseconds in 64 bits: 292 years from their beginning they overflow, and an
// endless wait becomes an expired one. gRPC clients send such waits: a Go client without a
// deadline sends `grpc-timeout: 2562047H`. Every deadline from a caller, and every sum of a
// time and a configured duration, goes through these functions. All of them saturate, and are
// thread-safe.
#ifndef GRPC_IDEMPOTENCY_DEADLINE_H_
#define GRPC_IDEMPOTENCY_DEADLINE_H_

#include <grpc/support/time.h>

#include <chrono>

#include "absl/time/time.h"

namespace idempotency {

using SteadyTime = std::chrono::steady_clock::time_point;

// No deadline.
inline constexpr SteadyTime kNever = SteadyTime::max();

// `wait` from now, saturated as After() is: DeadlineIn(absl::Seconds(30)).
SteadyTime DeadlineIn(absl::Duration wait);

// `start` and `wait` together; kNever if that is further away than the clock counts,
// SteadyTime::min() if it is longer ago.
SteadyTime After(SteadyTime start, absl::Duration wait);

// The time from `now` to `deadline`, negative once it has passed; infinite for kNever.
absl::Duration TimeUntil(SteadyTime deadline, SteadyTime now);

// The time to a gRPC call's deadline: ServerContextBase::raw_deadline(), which keeps deadlines that
// deadline() cuts. Negative once it has passed, infinite for none.
absl::Duration TimeUntil(gpr_timespec deadline);
// The same deadline on the steady clock whose time is `now`.
SteadyTime SteadyDeadline(gpr_timespec deadline, SteadyTime now);
// By the clock's present time.
SteadyTime SteadyDeadline(gpr_timespec deadline);

// For an outgoing call: on gRPC's monotonic clock.
gpr_timespec GrpcDeadlineIn(absl::Duration wait);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_DEADLINE_H_
