#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_MAINTENANCE_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_MAINTENANCE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/store/namespace_usage.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/single_row/records.h"
#include "server/store/postgres/single_row/walk.h"
#include "server/store/store_gauges.h"
#include "server/store/unknown_records.h"

namespace idempotency::internal {

// The operations of MaintenanceStore in PostgresStatementMode::kSingleRow (SingleRowWalk), but for
// the sweep. Thread-compatible.
class SingleRowMaintenance {
 public:
  explicit SingleRowMaintenance(SingleRowRecords records) : records_(records), walk_(records) {}

  absl::StatusOr<UsageStep> MeasureUsage(const UsageOp& op);
  absl::StatusOr<EndUnknownStep> EndUnknown(const EndUnknownOp& op);
  // Sets those that can be read, also if it is not OK.
  absl::Status Inspect(StoreGauges& gauges);

 private:
  // Up to `until`, or up to its scope if that is another one than that of `after`; nullopt: to the
  // end.
  absl::StatusOr<UsageStep> Measure(const UsageOp& op, const std::optional<RecordPlace>& until,
                                    const SingleRowTime& time, int limit);
  absl::Status ReadOldest(StoreGauges& gauges);
  absl::StatusOr<std::optional<absl::Time>> OldestOf(const PostgresStatement& statement,
                                                     absl::Time now);

  SingleRowRecords records_;
  SingleRowWalk walk_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_MAINTENANCE_H_
