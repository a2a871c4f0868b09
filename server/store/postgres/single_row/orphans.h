#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_ORPHANS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_ORPHANS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/single_row/records.h"

namespace idempotency::internal {

// Removes checkpoints whose life is over: in PostgresStatementMode::kSingleRow a process or a
// session may end between the removal of a record and that of its checkpoint, and nothing else
// visits a checkpoint without its record. Thread-compatible.
class SingleRowOrphans {
 public:
  // How many checkpoints a step examines.
  static constexpr int kPage = 500;

  explicit SingleRowOrphans(SingleRowRecords records) : records_(records) {}

  // Of the checkpoints behind `after`, in the order of their ids. Returns where the next step
  // continues: nil at the end. What cannot be read or removed is left to a later walk.
  absl::StatusOr<RecordId> Step(const RecordId& after);

 private:
  struct Page {
    std::vector<RecordId> ids;
    // The created_at of their records.
    std::vector<absl::Time> lives;
    // Where the next one begins: nil at the end.
    RecordId next;
  };

  absl::StatusOr<Page> ReadUntil(const RecordId& after, const RecordId& until);
  // Ends before a row that the server cannot read, and the next page begins behind that.
  absl::StatusOr<Page> Read(const RecordId& after);

  SingleRowRecords records_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_ORPHANS_H_
