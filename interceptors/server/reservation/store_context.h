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

// The objects that a reservation uses to communicate with the store. All of them outlive every
// task that was started.
struct StoreContext {
  Connection& connection;
  Scheduler& scheduler;
  // Requests for a reservation, and held reservations.
  std::shared_ptr<OutstandingWork> requests;
  std::shared_ptr<OutstandingWork> recordings;
  // ReserveLimits::pursued.
  Places pursuits{ReserveLimits().pursued};
  std::shared_ptr<GuardLog> log = GuardLog::Default();
};

// The timeout of one try of an operation; then it is repeated. Above the worst commit latency
// in storage tests, well under the default lease.
inline constexpr absl::Duration kTryTimeout = absl::Seconds(2);
// Pauses between repeats of an operation: at first short, for a connection that was just
// re-established, later longer, so that a recovering store is not flooded: each waiting
// operation sends about three requests a second, and the daemon refuses them without querying
// the store.
inline constexpr absl::Duration kFirstRepeat = absl::Milliseconds(20);
inline constexpr absl::Duration kLongestRepeat = absl::Milliseconds(500);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_STORE_CONTEXT_H_
