#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_MAINTENANCE_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_MAINTENANCE_H_

#include "absl/status/statusor.h"

#include "server/store/namespace_usage.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/records/unreadable_places.h"
#include "server/store/postgres/statements/batched.h"
#include "server/store/store_gauges.h"
#include "server/store/unknown_records.h"

namespace idempotency::internal {

// The operations of MaintenanceStore on one connection, but for the sweep. Each is one statement,
// unless that meets a row that the server cannot read (ReadOrStepOver()).
// Thread-compatible.
class BatchedMaintenance {
 public:
  // Both outlive it.
  BatchedMaintenance(PostgresConnection& connection, const PostgresStatements& statements,
                     UnreadablePlaces& unreadable)
      : connection_(connection), statements_(statements), unreadable_(unreadable) {}

  absl::StatusOr<UsageStep> MeasureUsage(const UsageOp& op);
  absl::StatusOr<EndUnknownStep> EndUnknown(const EndUnknownOp& op);
  // A failure is that of PostgresConnection, not the caller's.
  absl::StatusOr<StoreGauges> Inspect();

 private:
  absl::StatusOr<UsageStep> Measure(const UsageOp& op, int limit);
  absl::StatusOr<EndUnknownStep> End(const EndUnknownOp& op, int limit);

  PostgresConnection& connection_;
  const PostgresStatements& statements_;
  UnreadablePlaces& unreadable_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_MAINTENANCE_H_
