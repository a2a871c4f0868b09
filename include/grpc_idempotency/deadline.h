// Points in time that are far away, or for ever. Clocks count nanoseconds in 64
// bits: 292 years from their beginning they overflow, and a wait that has no end
// becomes one that is over. gRPC clients ask for such waits: a Go client sends
// `grpc-timeout: 2562047H` for a deadline that it does not have. Every deadline
// that comes from outside, and every sum of a time and a configured duration,
// goes through here. All functions saturate, and are thread-safe.
#ifndef GRPC_IDEMPOTENCY_DEADLINE_H_
#define GRPC_IDEMPOTENCY_DEADLINE_H_

#include <grpc/support/time.h>

#include <chrono>

#include "absl/time/time.h"

namespace idempotency {

using SteadyTime = std::chrono::steady_clock::time_point;

// No deadline.
inline constexpr SteadyTime kNever = SteadyTime::max();

// `start` and `wait` together; kNever where that is further away than the
// clock counts, SteadyTime::min() where it is longer ago.
SteadyTime After(SteadyTime start, absl::Duration wait);

// The time from `now` to `deadline`, negative once it has passed; infinite for
// kNever.
absl::Duration TimeUntil(SteadyTime deadline, SteadyTime now);

// From a gRPC call's deadline (ServerContextBase::raw_deadline(), which keeps
// what deadline() loses). Negative once it has passed, infinite for none.
absl::Duration TimeUntil(gpr_timespec deadline);
// The same deadline on the steady clock whose time is `now`.
SteadyTime SteadyDeadline(gpr_timespec deadline, SteadyTime now);
// And by the wall clock; InfiniteFuture for none.
absl::Time WallDeadline(gpr_timespec deadline);

// For a call of ours: on gRPC's monotonic clock, so that a step of the wall clock
// moves nothing.
gpr_timespec GrpcDeadlineIn(absl::Duration wait);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_DEADLINE_H_
