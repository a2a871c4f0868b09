#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_SWEEP_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_SWEEP_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/records/sweep_walk.h"
#include "server/store/postgres/records/unreadable_places.h"
#include "server/store/postgres/statements/batched.h"
#include "server/store/sweep_operations.h"

namespace idempotency::internal {

// One step of a sweep (records/sweep_walk.h). Each statement is a transaction of its own, so that
// no lock outlives it, even if this process ends (statements/batched/sweep_sql.cc). Of one step
// each; thread-compatible.
class BatchedSweep {
 public:
  BatchedSweep(PostgresConnection& connection, const PostgresStatements& statements,
               UnreadablePlaces& unreadable)
      : connection_(connection), statements_(statements), unreadable_(unreadable) {}

  absl::StatusOr<SweepProgress> Step(const SweepOp& op);

 private:
  absl::Status Walk(const SweepOp& op, SweepProgress& progress);
  absl::StatusOr<SweepVisit> Visit(const PostgresStatement& statement,
                                   const PostgresParameters& parameters, SweepProgress& progress);
  // Returns the number of rows read.
  int Note(const PostgresResult& answer, SweepProgress& progress);
  absl::Status DropReplies(SweepProgress& progress);
  // Those of `ids`. Leaves in it those of which the server cannot read, or replace, one.
  absl::Status DropReplies(std::vector<Uuid>& ids, SweepProgress& progress);

  PostgresConnection& connection_;
  const PostgresStatements& statements_;
  UnreadablePlaces& unreadable_;
  std::vector<Uuid> replies_over_;
  // The store's time of the last visit.
  std::optional<absl::Time> visited_at_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_SWEEP_H_
