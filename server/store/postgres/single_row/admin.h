#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_ADMIN_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_ADMIN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/store/admin_decision.h"
#include "server/store/admin_operations.h"
#include "server/store/namespace_usage.h"
#include "server/store/postgres/single_row/records.h"
#include "server/store/record.h"
#include "server/store/reseal_operations.h"
#include "server/store/store_gauges.h"
#include "server/store/unknown_records.h"

namespace idempotency::internal {

// The administrator's operations, the bounds of namespaces and the gauges in
// PostgresStatementMode::kSingleRow. One statement finds the places of records on all nodes; the
// records are then read, and changed, one by one. A change of a record and its entry of the audit
// log are a transaction that concerns this record only: where audit_log is distributed by record,
// one node's. Thread-compatible.
class SingleRowAdmin {
 public:
  explicit SingleRowAdmin(SingleRowRecords records) : records_(records) {}

  absl::StatusOr<RecordPage> List(const ListOp& op);
  absl::StatusOr<Resolution> Resolve(const ResolveOp& op);
  // A step is not one transaction, but one for each record.
  absl::StatusOr<PurgeStep> Purge(const PurgeOp& op);
  absl::StatusOr<EndUnknownStep> EndUnknown(const EndUnknownOp& op);
  // The entry of the audit log follows what it names: a process that ends between both leaves none.
  absl::StatusOr<ResealStep> Reseal(const ResealOp& op);
  absl::StatusOr<UsageStep> MeasureUsage(const UsageOp& op);
  absl::StatusOr<StoreGauges> Inspect();

 private:
  absl::StatusOr<std::vector<RecordPlace>> Walk(ListWalk walk, const std::string& first_part,
                                                const std::optional<RecordPlace>& after, int limit);
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
  PostgresParameters EntombParameters(const StoredRecord& stored, absl::Duration refused,
                                      absl::Time now) const;
  // Runs `write`, which returns whether it changed the record, in a transaction.
  absl::StatusOr<bool> InTransaction(absl::FunctionRef<absl::StatusOr<bool>()> write);
  // As `change` of one record, and false for one that is locked: it is left to another pass. Once a
  // few waits were in vain, it runs no further one.
  absl::StatusOr<bool> UnlessLocked(absl::FunctionRef<absl::StatusOr<bool>()> change);
  absl::Status NoteAudit(const AdminNote& note, AuditAction action, bool forced,
                         const std::string& audit_key, const Record& record, std::int64_t records,
                         absl::Time now);
  absl::StatusOr<std::vector<StoredRecord>> ReadContents(const ResealOp& op, ResealStep& step);
  absl::StatusOr<bool> Replace(const ContentReplacement& replacement);
  absl::StatusOr<std::optional<absl::Time>> OldestOf(const PostgresStatement& statement,
                                                     absl::Time now);

  SingleRowRecords records_;
  int lock_waits_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_ADMIN_H_
