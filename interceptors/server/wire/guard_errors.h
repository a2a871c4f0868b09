#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_GUARD_ERRORS_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_GUARD_ERRORS_H_

#include "absl/status/status.h"

#include "grpc_idempotency/server_guard/refusal.h"

namespace idempotency::internal {

// KEY_REUSED: the record's request is another one.
absl::Status KeyReused();

// RESERVATION_LOST with the guard's code, ABORTED, and a retry delay: the status for the caller
// of an attempt that the store refused. The caller's retry gets the winner's reply.
absl::Status ReservationLost();

// RESERVATION_LOST of such a record, ABORTED, without a retry delay: a retry of the operation would
// run it again, as if for the first time.
absl::Status RecordGone();

// RESERVATION_LOST, ABORTED, with the cause SUPERSEDED and without a retry delay: another attempt
// may have taken over before the record went, so that this attempt's result is not the operation's,
// and a retry would run it again.
absl::Status SupersededAndGone();

// ReservationLost() or RecordGone(): the one that is true after this refusal of a token.
absl::Status LossOf(const absl::Status& refusal);

// Whether a retry after a RESERVATION_LOST would run the operation again: RecordGone() and
// SupersededAndGone().
bool WouldRunAgain(const absl::Status& loss);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_GUARD_ERRORS_H_
