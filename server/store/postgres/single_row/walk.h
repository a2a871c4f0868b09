#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_WALK_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_WALK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/admin_decision.h"
#include "server/store/admin_operations.h"
#include "server/store/postgres/records/unreadable_rows.h"
#include "server/store/postgres/single_row/records.h"
#include "server/store/record.h"

namespace idempotency::internal {

// What administration and maintenance share in PostgresStatementMode::kSingleRow. One statement
// finds the places of records on all nodes; the records are then read, and changed, one by one. A
// change of a record and its entry of the audit log are a transaction that concerns this record
// only: where audit_log is distributed by record, one node's. Thread-compatible.
class SingleRowWalk {
 public:
  explicit SingleRowWalk(SingleRowRecords records) : records_(records) {}

  struct Visit {
    std::vector<RecordPlace> places;
    // Where to continue; nullopt at the end.
    std::optional<RecordPlace> next;
  };
  // The next ones of a walk (RecordPlaces). One whose row the server cannot read is the only one:
  // the read of that record fails, as IsUnreadable().
  absl::StatusOr<Visit> Places(ListWalk walk, const std::string& first_part,
                               const RecordPlace& after, int limit, Look look);
  // Runs `write`, which returns whether it changed the record, in a transaction.
  absl::StatusOr<bool> InTransaction(absl::FunctionRef<absl::StatusOr<bool>()> write);
  // As `change` of one record, and false for one that is locked: it is left to another pass. Once a
  // few waits were in vain, it runs no further one.
  absl::StatusOr<bool> UnlessLocked(absl::FunctionRef<absl::StatusOr<bool>()> change);
  absl::Status NoteAudit(const AdminNote& note, AuditAction action, bool forced,
                         const std::string& audit_key, const Record& record, std::int64_t records,
                         absl::Time now);

 private:
  SingleRowRecords records_;
  int lock_waits_ = 0;
};

std::vector<RecordId> RecordIdsOf(const std::vector<RecordPlace>& places);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_WALK_H_
