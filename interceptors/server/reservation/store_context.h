#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_STORE_CONTEXT_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_STORE_CONTEXT_H_

#include <memory>

#include "absl/time/time.h"

#include "grpc_idempotency/client/connection.h"
#include "interceptors/server/log/guard_log.h"
#include "interceptors/server/reservation/reserve_limits.h"
#include "interceptors/server/threads/outstanding_work.h"
#include "interceptors/server/threads/places.h"
#include "interceptors/server/threads/scheduler.h"

namespace idempotency::internal {

// What a reservation needs to talk to the store. All of it outlives every
// piece of work that was begun.
struct StoreContext {
  Connection& connection;
  Scheduler& scheduler;
  // Requests for a reservation, and reservations that are held.
  std::shared_ptr<OutstandingWork> requests;
  std::shared_ptr<OutstandingWork> recordings;
  // ReserveLimits::pursued.
  Places pursuits{ReserveLimits().pursued};
  std::shared_ptr<GuardLog> log = GuardLog::Default();
};

// How long one try of an operation may take before it is repeated. Above the
// worst commit latency seen in storage tests, well under the default lease.
inline constexpr absl::Duration kTryTimeout = absl::Seconds(2);
// Repeats of an operation: at first quickly, for a connection that was just
// re-made, later so that a store that comes back is not flooded: each operation
// that waits asks about three times a second, and the daemon refuses it without
// asking the store.
inline constexpr absl::Duration kFirstRepeat = absl::Milliseconds(20);
inline constexpr absl::Duration kLongestRepeat = absl::Milliseconds(500);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_STORE_CONTEXT_H_
