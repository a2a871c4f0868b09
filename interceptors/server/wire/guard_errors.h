#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_GUARD_ERRORS_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_GUARD_ERRORS_H_

#include "absl/status/status.h"

namespace idempotency::internal {

// KEY_REUSED: the record's request is another one.
absl::Status KeyReused();

// RESERVATION_LOST with the guard's code, ABORTED, and a retry delay: the status for the caller
// of an attempt that the store refused. The caller's retry gets the winner's reply.
absl::Status ReservationLost();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_GUARD_ERRORS_H_
