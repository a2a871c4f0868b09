#ifndef GRPC_IDEMPOTENCY_LEDGER_COMPLETION_LEDGER_H_
#define GRPC_IDEMPOTENCY_LEDGER_COMPLETION_LEDGER_H_

#include <optional>

#include "absl/status/statusor.h"

#include "grpc_idempotency/ledger/ledger_entry.h"
#include "grpc_idempotency/uuid.h"

namespace idempotency {

// What the application's own database says about operations that were
// committed there: one row each, written by Execution::RecordInTransaction in the
// transaction of the effects. The guard only reads it.
//
// Thread-safe. Its methods block; the guard calls them on threads of its own.
class CompletionLedger {
 public:
  virtual ~CompletionLedger() = default;

  // The row of one operation, from what is committed on the database that
  // takes the writes. Never from a replica, nor through the application's own
  // open transaction: that there is no row must mean that none is committed.
  //   an entry               the operation is done
  //   nullopt                no row is committed. One may still be in an open
  //                          transaction, which is why a second attempt also
  //                          inserts and fails.
  //   RECORD_DAMAGED         there is a row that cannot be read
  //   any other error        nobody knows: the database could not be asked
  virtual absl::StatusOr<std::optional<LedgerEntry>> Find(const RecordId& record_id) = 0;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_LEDGER_COMPLETION_LEDGER_H_
