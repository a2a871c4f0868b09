#ifndef IDEMPOTENCY_CORE_RETRY_DELAYS_H_
#define IDEMPOTENCY_CORE_RETRY_DELAYS_H_

#include "absl/time/time.h"

#include "grpc_idempotency/errors.h"

namespace idempotency::internal {

// The details of an error that may be retried after `delay`.
inline ErrorDetails RetryAfter(absl::Duration delay) { return {delay, {}, {}}; }

}  // namespace idempotency::internal

// The retry delays of errors, by reason. Callers see them: docs/errors.md has the values.
namespace idempotency::internal::retry_delays {

// STORE_UNAVAILABLE, the connection to idempotencyd failed: about the time of the first
// reconnection.
inline constexpr absl::Duration kReconnection = absl::Milliseconds(200);
// STORE_UNAVAILABLE, the process, its store or the completion ledger is away: the time that another
// replica, or this one after its restart, needs to take over.
inline constexpr absl::Duration kUnavailable = absl::Seconds(1);
// STORE_UNAVAILABLE, the idempotencyd is read-only and stays so: a caller that came here by mistake
// retries elsewhere.
inline constexpr absl::Duration kReadOnly = absl::Seconds(5);
// STORE_UNAVAILABLE, Postgres did not confirm: in most cases one session was lost, and the repeat
// gets another one.
inline constexpr absl::Duration kPostgresUnconfirmed = absl::Milliseconds(50);
// STORE_UNAVAILABLE, another session has locked the record's row: it held the lock for a second
// already, so it is no commit that is about to end.
inline constexpr absl::Duration kRowLocked = absl::Milliseconds(500);
// STORE_UNAVAILABLE, the store's schema is gone or not the one that was served: an operator has to
// act.
inline constexpr absl::Duration kSchemaGone = absl::Seconds(5);
// STORE_UNAVAILABLE, SQLite did not answer: another process held the file, or the disk failed.
inline constexpr absl::Duration kSqliteUnconfirmed = absl::Milliseconds(100);

// OVERLOADED, by the part that is full; each waits for other work.
// In the client reservations wait, which take milliseconds.
inline constexpr absl::Duration kClientOverloaded = absl::Milliseconds(100);
// In idempotencyd a full queue of 16 Ki operations is half a second of work for a healthy store;
// after that time callers have also read some of the held replies.
inline constexpr absl::Duration kServiceOverloaded = absl::Milliseconds(500);
// In the guard handlers, recoveries and loads of replies wait, which take as long as the
// application's code.
inline constexpr absl::Duration kGuardOverloaded = absl::Seconds(1);
// Calls of administrators read many records: one of them may be over by then.
inline constexpr absl::Duration kAdministratorsBusy = absl::Seconds(1);

// QUOTA_EXCEEDED, operations in flight: one of them has probably been answered by then.
inline constexpr absl::Duration kOperationsInFlight = absl::Milliseconds(100);
// QUOTA_EXCEEDED, records or bytes of replies: as often as the usage is measured (UsageMeter). An
// earlier retry gets the same answer.
inline constexpr absl::Duration kStoredUsage = absl::Seconds(10);
// QUOTA_EXCEEDED, rate: at least this. A caller cannot measure less, and a delay of zero would be a
// flood.
inline constexpr absl::Duration kMinQuotaDelay = absl::Milliseconds(1);

// IN_FLIGHT without a reservation, because too many calls of the guard wait for one record: they
// have their answers by then.
inline constexpr absl::Duration kRecordBusy = absl::Milliseconds(500);

// RESERVATION_LOST, another attempt holds the record: its reply may be there by then. If that
// attempt still runs, IN_FLIGHT has a better delay.
inline constexpr absl::Duration kAnotherAttempt = absl::Milliseconds(100);
// RESERVATION_LOST, the reply is recorded.
inline constexpr absl::Duration kReplyRecorded = absl::ZeroDuration();

}  // namespace idempotency::internal::retry_delays

#endif  // IDEMPOTENCY_CORE_RETRY_DELAYS_H_
