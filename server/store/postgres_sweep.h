#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_SWEEP_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_SWEEP_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/uuid.h"
#include "server/store/postgres_connection.h"
#include "server/store/postgres_statements.h"
#include "server/store/store.h"

namespace idempotency {

// One step of a sweep, in one transaction: looks at the next records without
// locking them, then locks and changes those that need it. Walks ids of UUIDv7
// keys in their own order, which is time's; then hashed ids by age, through an
// index that only they have. Thread-compatible.
class PostgresSweep {
 public:
  PostgresSweep(PostgresConnection& connection, const PostgresStatements& statements)
      : connection_(connection), statements_(statements) {}

  absl::StatusOr<SweepProgress> Step(const SweepOp& op);

 private:
  // What a look found.
  struct Visited {
    int rows = 0;
    std::vector<Uuid> gone;
    std::vector<Uuid> to_tombstone;
    std::vector<Uuid> lapsed;
    std::vector<Uuid> replies_over;
    std::vector<Uuid> open_for_long;
    // Where the next step goes on; nullopt at the end of the pass.
    std::optional<RecordId> next;
    absl::Duration quiet = absl::InfiniteDuration();
  };

  absl::StatusOr<SweepProgress> StepLocked(const SweepOp& op);
  absl::Status VisitOrdered(const SweepOp& op, Visited& visited);
  absl::Status VisitHashed(const SweepOp& op, Visited& visited);
  // Answers how many rows were looked at.
  static int Note(const PostgresResult& summary, Visited& visited);
  absl::Status Apply(const Visited& visited, SweepProgress& progress);
  absl::Status DropReplies(std::vector<Uuid> ids, SweepProgress& progress);
  // Runs a statement over ids. Answers the ids that it returns.
  absl::StatusOr<std::vector<Uuid>> ForIds(const PostgresStatement& statement,
                                           std::vector<Uuid> ids);

  PostgresConnection& connection_;
  const PostgresStatements& statements_;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_SWEEP_H_
