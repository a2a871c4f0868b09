#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_SWEEP_LIMITS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_SWEEP_LIMITS_H_

#include <cstddef>

#include "absl/time/time.h"

// What the sweeps of both statement modes have in common.
namespace idempotency::internal::sweep_limits {

// Replies whose content one statement drops, in bytes, except for the last one: the memory of the
// sweep.
inline constexpr std::size_t kDroppedAtOnceBytes = 4 * 1024 * 1024;

// The replies of the rows that one statement of a sweep or a purge removes or reduces to their
// tombstone, in bytes, except for the last one: the server reads and logs each part of them.
inline constexpr std::size_t kRemovedAtOnceBytes = 16 * 1024 * 1024;

// The newest records have a turn of their own while a pass takes long: most leases end among them.
inline constexpr absl::Duration kRecent = absl::Hours(1);

// A range is remembered as quiet if it ends at least this long ago: until then records are added to
// it by callers whose clocks are behind, and by inserts that are not committed yet.
inline constexpr absl::Duration kSettled = absl::Minutes(1);

// From this age on a reservation under a live lease is marked open_for_long. The gauges find the
// oldest of them by the mark, so that they do not read all that are open.
inline constexpr absl::Duration kOpenForLong = absl::Minutes(1);

}  // namespace idempotency::internal::sweep_limits

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_SWEEP_LIMITS_H_
