// One step of the sweep.
#ifndef IDEMPOTENCY_SERVER_STORE_SWEEP_OPERATIONS_H_
#define IDEMPOTENCY_SERVER_STORE_SWEEP_OPERATIONS_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {

struct SweepOp {
  // Where the last call of this pass stopped; nullopt starts a pass at the
  // lowest id.
  std::optional<RecordId> after;
  // Where to stop at the latest: the `next` of an earlier step, beyond `after`.
  std::optional<RecordId> until;
  // At most this many records are examined for removal. At least 1.
  int limit = 500;
};

struct SweepProgress {
  std::int64_t removed = 0;
  // RESERVED under REQUIRE_RECOVERY with an expired lease.
  std::int64_t marked_unknown = 0;
  // Only the tombstone of these forgotten records is left.
  std::int64_t entombed = 0;
  // Of completed records only the status is left.
  std::int64_t replies_dropped = 0;
  // How many records were examined.
  std::int64_t visited = 0;
  // Where to continue; nullopt at the end of the pass.
  std::optional<RecordId> next;
  // Before this no record between `after` and `next` needs the sweep, except
  // records that arrived late or were recovered since. Zero: not known.
  absl::Duration quiet = absl::ZeroDuration();
  // Another replica is sweeping: nothing was done.
  bool elsewhere = false;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_SWEEP_OPERATIONS_H_
