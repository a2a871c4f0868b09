#ifndef IDEMPOTENCY_SERVER_STORE_MAINTENANCE_STORE_H_
#define IDEMPOTENCY_SERVER_STORE_MAINTENANCE_STORE_H_

#include "absl/status/statusor.h"

#include "server/store/namespace_usage.h"
#include "server/store/store_gauges.h"
#include "server/store/sweep_operations.h"
#include "server/store/unknown_records.h"

namespace idempotency::internal {

// The store's background work, for the threads of the sweeper, the usage meter and the store
// monitor: one step a call, which reads a bounded number of records. A step that fails with
// STORE_UNAVAILABLE may have happened; repeating it is safe.
//
// Thread-safe. All block until the store has answered.
class MaintenanceStore {
 public:
  virtual ~MaintenanceStore() = default;

  // Removes forgotten records whose tombstone is over (or reduces them to it),
  // limits::kClockStepMargin later, so that a clock that steps back by less finds
  // every record whose window it opens again; drops the content of replies whose
  // retention is over, and turns expired REQUIRE_RECOVERY reservations into
  // UNKNOWN, from the lowest id upwards, at most `limit` at a time. Never changes
  // a record that a Reserve has just revived. Only frees space: no answer depends
  // on whether it ran.
  virtual absl::StatusOr<SweepProgress> Sweep(const SweepOp& op) = 0;

  // Reduces records that have been UNKNOWN for longer than `life` to a tombstone, for namespaces
  // that bound it. The key stays refused for the rest of the record's retention, or, if that is
  // over, for as long as it was: an operation that may have had its effect never runs again.
  virtual absl::StatusOr<EndUnknownStep> EndUnknown(const EndUnknownOp& op) = 0;

  // One step through the records of a namespace. Reads at most `limit` rows by an index, and no
  // reply. Not confirmed by a standby.
  virtual absl::StatusOr<UsageStep> MeasureUsage(const UsageOp& op) = 0;

  // OK while the next completion can be made durable: a write of this process was
  // committed recently, or a test write succeeds in time. Also the gauges: one that cannot be read
  // alone is that of before, or none, and StoreGauges::read is false.
  virtual absl::StatusOr<StoreGauges> Inspect() = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_MAINTENANCE_STORE_H_
