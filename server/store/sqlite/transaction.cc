#include "server/store/sqlite/transaction.h"

namespace idempotency::internal {

absl::Status SqliteTransaction::Begin() {
  // A transaction that could not even be rolled back (the disk was lost) is
  // still open.
  RollBack();
  return connection_.Execute("BEGIN IMMEDIATE");
}

absl::Status SqliteTransaction::Commit() { return connection_.Execute("COMMIT"); }

void SqliteTransaction::RollBack() {
  // A failure is logged, and the next Begin tries again.
  if (connection_.in_transaction()) connection_.Execute("ROLLBACK").IgnoreError();
}

}  // namespace idempotency::internal
