#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_SWEEP_WALK_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_SWEEP_WALK_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/connection/parameters.h"
#include "server/store/postgres/records/unreadable_places.h"
#include "server/store/sweep_operations.h"

namespace idempotency::internal {

// The rows that one statement of a walk visited: how many, and the last of them.
struct SweepVisit {
  int seen = 0;
  // At a row before the limit, because of the size of what was removed.
  bool stopped = false;
  absl::Time last_created_at;
  Uuid last_id;
};

// Runs a statement that visits the next rows, and adds them to the progress of the step.
using VisitStatement = absl::FunctionRef<absl::StatusOr<SweepVisit>(const PostgresParameters&)>;

// Visits op.limit records from op.after on, and sets the place that the next step continues from
// (SweepProgress::next), unless the progress is `elsewhere`. Walks ids of UUIDv7 keys in their
// order, which is that of time; then hashed ids by age, through an index that only they have.
// Where the server cannot read a row, the step visits those before it, or steps over it
// (unreadable_rows.h), and over those that are in `unreadable`: a read of that record reports it.
// Where a statement is CANCELLED, the progress is `too_slow`.
//
// The statements run on `connection`. `ordered` has as $1 the id to continue after, $2 the last id,
// $3 how many; `hashed` has $1 created_at and $2 id to continue after, $3 and $4 the last pair, $5
// how many.
absl::Status WalkSweep(PostgresConnection& connection, UnreadablePlaces& unreadable,
                       const SweepOp& op, SweepProgress& progress, VisitStatement ordered,
                       VisitStatement hashed);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_SWEEP_WALK_H_
