#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_RESERVE_LIMITS_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_RESERVE_LIMITS_H_

#include <cstddef>

#include "grpc_idempotency/limits.h"

namespace idempotency::internal {

// The maximum numbers of a guard's open requests for a reservation, so that neither the
// duplicates of one key nor an outage of the store use up the resources of other calls.
struct ReserveLimits {
  // Requests of one key. Over it the guard itself answers a call with `in_flight`: so many
  // requests for the same record are open that one of them has it or will have it.
  std::size_t of_a_key = limits::kMaxSessionInFlight / 16;
  // Requests that wait for a running attempt: half of a session's limit. Over it a request is
  // sent without its max_wait, and is answered at once.
  std::size_t waiting = limits::kMaxSessionInFlight / 2;
  // Requests without a waiting caller, which are repeated until it is known that they hold
  // nothing. Over it they are not: a reservation that they may have been granted ends with its
  // lease.
  std::size_t pursued = 1024;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_RESERVE_LIMITS_H_
