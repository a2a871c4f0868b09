#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_SHARED_COMMIT_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_SHARED_COMMIT_H_

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "server/store/postgres/batched/reserve.h"
#include "server/store/postgres/batched/settle.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/records/operation_batches.h"
#include "server/store/postgres/statements/batched.h"
#include "server/store/record_operations.h"

namespace idempotency::internal {

// Completions and new reservations in one statement, so that both wait for one
// commit. Operations that the statement does not hit (a lost reservation, a
// known key) are handled as if alone; so are all if the statement fails.
// Thread-compatible.
class SharedCommit {
 public:
  // False where one would only delay the other: nothing to share, or replies
  // that take longer to write than a commit.
  static bool Pays(absl::Span<const CompleteOp> completions,
                   absl::Span<const ReserveOp> reservations);

  SharedCommit(PostgresConnection& connection, const PostgresStatements& statements)
      : connection_(connection), statements_(statements) {}

  // Answers all operations of both batches that have no answer yet. `reserve` is of `reserving`.
  void Run(CompleteBatch& completing, ReserveBatch& reserving, BatchedReserve& reserve);

 private:
  // Runs those operations.
  absl::Status RunTogether(CompleteBatch& completing, const CompleteBatch::Indices& completions,
                           BatchedReserve& reserve, const BatchedReserve::Indices& insertable);

  PostgresConnection& connection_;
  const PostgresStatements& statements_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_SHARED_COMMIT_H_
