#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_STORE_CONTEXT_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_STORE_CONTEXT_H_

#include <cstddef>
#include <memory>

#include "absl/time/time.h"

#include "grpc_idempotency/client/connection.h"
#include "grpc_idempotency/limits.h"
#include "interceptors/server/connection/replay_cache.h"
#include "interceptors/server/limits.h"
#include "interceptors/server/log/guard_log.h"
#include "interceptors/server/threads/outstanding_work.h"
#include "interceptors/server/threads/places.h"
#include "interceptors/server/threads/scheduler.h"

namespace idempotency::internal {

// The maximum numbers of a guard's open requests for a reservation, so that neither the
// duplicates of one key nor an outage of the store use up the resources of other calls.
struct ReserveLimits {
  // Requests of one key. Over it the guard itself answers a call with `in_flight`: with this many
  // open requests for the same record, one of them has it or will have it.
  std::size_t of_a_key = limits::kMaxSessionInFlight / 16;
  // Requests that wait for a running attempt: half of a session's limit. Over it a request is
  // sent without its max_wait, and is answered at once.
  std::size_t waiting = limits::kMaxSessionInFlight / 2;
  // Requests without a waiting caller, which are repeated until it is known that they hold
  // nothing. Over it they are not: a reservation that they may have been granted ends with its
  // lease.
  std::size_t pursued = 1024;
  // Replies that have left before their recording was acknowledged (Settlement).
  std::size_t replies_ahead = limits::kMaxRepliesAhead;
};

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
  // nullptr: the store answers every request.
  std::shared_ptr<ReplayCache> replays = nullptr;
};

// A guard's context: every request and every reservation holds it.
using SharedStoreContext = std::shared_ptr<const StoreContext>;

// The timeout of one try of an operation; then it is repeated. Above the worst commit latency
// in storage tests, well under the default lease.
inline constexpr absl::Duration kTryTimeout = absl::Seconds(2);
// Pauses between repeats of an operation: at first short, for a connection that was just
// re-established, later longer, so that a recovering store is not flooded: each waiting
// operation sends about three requests a second, and the daemon refuses them without querying
// the store.
inline constexpr absl::Duration kFirstRepeat = absl::Milliseconds(20);
inline constexpr absl::Duration kLongestRepeat = absl::Milliseconds(500);
// How long after its lease a release is repeated, where it is still needed then. Longer than most
// outages; none of them can add reservations to those that were held when it began.
inline constexpr absl::Duration kReleaseAfterLease = absl::Hours(1);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_STORE_CONTEXT_H_
