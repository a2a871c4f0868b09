#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_ADMIN_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_ADMIN_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/store/admin_operations.h"
#include "server/store/decision.h"
#include "server/store/postgres/single_row/records.h"
#include "server/store/postgres/single_row/walk.h"

namespace idempotency::internal {

// The administrator's operations in PostgresStatementMode::kSingleRow (SingleRowWalk), but for
// Reseal. Thread-compatible.
class SingleRowAdmin {
 public:
  explicit SingleRowAdmin(SingleRowRecords records) : records_(records), walk_(records) {}

  absl::StatusOr<RecordPage> List(const ListOp& op);
  absl::StatusOr<Resolution> Resolve(const ResolveOp& op);
  // A step is not one transaction, but one for each record.
  absl::StatusOr<PurgeStep> Purge(const PurgeOp& op);

 private:
  absl::StatusOr<std::optional<StoredRecord>> ReadOne(const RecordId& id);
  // Nothing if the record changed.
  absl::StatusOr<std::optional<Resolution>> ResolveOnce(const ResolveOp& op,
                                                        const std::string& audit_key);
  absl::StatusOr<PurgeStep> PurgeOne(const PurgeOp& op);
  absl::StatusOr<PurgeStep> PurgeWalk(const PurgeOp& op);
  absl::Status PurgeFound(const PurgeOp& op, const std::string& audit_key,
                          const SingleRowTime& time, const StoredRecord& stored, PurgeStep& step);
  // Whether it was still as it was read.
  absl::StatusOr<bool> Forget(const PurgeOp& op, const std::string& audit_key,
                              const StoredRecord& stored, absl::Time now);

  SingleRowRecords records_;
  SingleRowWalk walk_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_ADMIN_H_
