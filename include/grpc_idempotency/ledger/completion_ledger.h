#ifndef GRPC_IDEMPOTENCY_LEDGER_COMPLETION_LEDGER_H_
#define GRPC_IDEMPOTENCY_LEDGER_COMPLETION_LEDGER_H_

#include <optional>

#include "absl/status/statusor.h"

#include "grpc_idempotency/ledger/ledger_entry.h"
#include "grpc_idempotency/uuid.h"

namespace idempotency {

// The records that the application's own database holds about operations that were committed
// there: one row each, written by Execution::RecordInTransaction in the transaction of the
// effects. The guard only reads it.
//
// Thread-safe. The methods block; the guard calls them on its own threads.
class CompletionLedger {
 public:
  virtual ~CompletionLedger() = default;

  // Reads the row of one operation from the committed state of the database that takes the
  // writes. Never from a replica, nor through the application's own open transaction: nullopt
  // must mean that no row is committed.
  //   an entry         the operation is done
  //   nullopt          no row is committed. An open transaction may still hold one, which is
  //                    why a second attempt also inserts, and fails.
  //   RECORD_DAMAGED   the row cannot be read
  //   any other error  the outcome is not known: the database could not be queried
  virtual absl::StatusOr<std::optional<LedgerEntry>> Find(const RecordId& record_id) = 0;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_LEDGER_COMPLETION_LEDGER_H_
