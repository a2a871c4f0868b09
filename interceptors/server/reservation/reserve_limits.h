#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_RESERVE_LIMITS_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_RESERVE_LIMITS_H_

#include <cstddef>

#include "grpc_idempotency/limits.h"

namespace idempotency::internal {

// How many of a guard's requests for a reservation may be open, so that neither the
// duplicates of one key nor an outage of the store take what other calls need.
struct ReserveLimits {
  // Of one key. Over it a call is answered `in_flight` by the guard itself: so many
  // others are asking for the same record that one of them has it or will have it.
  std::size_t of_a_key = limits::kMaxSessionInFlight / 16;
  // Of those that wait for a running attempt: half of what a session may have in
  // flight. Over it a request is asked without its max_wait, and is answered at once.
  std::size_t waiting = limits::kMaxSessionInFlight / 2;
  // Of those that nobody waits for any more, and that are repeated nevertheless until
  // it is known that they hold nothing. Over it they are not: what they may have been
  // granted ends with its lease.
  std::size_t pursued = 1024;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_RESERVE_LIMITS_H_
