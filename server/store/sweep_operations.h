// One step of the sweep.
#ifndef IDEMPOTENCY_SERVER_STORE_SWEEP_OPERATIONS_H_
#define IDEMPOTENCY_SERVER_STORE_SWEEP_OPERATIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {

// The records after a place, up to another one; nullopt is the end of the pass.
struct SweepRange {
  RecordId after;
  std::optional<RecordId> until;
};

struct SweepOp {
  // Where the last call of this pass stopped; nullopt starts a pass at the
  // lowest id.
  std::optional<RecordId> after;
  // Where to stop at the latest, beyond `after`: an earlier `next`, or that of a SweepRange.
  std::optional<RecordId> until;
  // At most this many records are examined for removal. At least 1.
  int limit = 500;
  // After a step that was too slow: how often the range up to `until`, and the limit, are halved.
  int narrow = 0;
  // From here on a step that is too slow is an error.
  static constexpr int kNarrowest = 64;
};

struct SweepProgress {
  std::int64_t removed = 0;
  // RESERVED under REQUIRE_RECOVERY with an expired lease.
  std::int64_t marked_unknown = 0;
  // Only the tombstone of these forgotten records is left.
  std::int64_t entombed = 0;
  // Completed records of which only the status is left.
  std::int64_t replies_dropped = 0;
  // How many records were examined. Fewer than the limit also where those that were removed had
  // large replies.
  std::int64_t visited = 0;
  // Where to continue; nullopt at the end of the pass.
  std::optional<RecordId> next;
  // Before this no record between `after` and `next` needs the sweep, except
  // records that arrived late or were recovered since. Zero: not known.
  absl::Duration quiet = absl::ZeroDuration();
  // Another replica is sweeping: nothing was done.
  bool elsewhere = false;
  // The step did not fit into the store's time for one, and nothing was done: it is to be repeated
  // with a larger `narrow`.
  bool too_slow = false;
  // Ranges that have turns of their own while a pass takes long: those of the newest records, and
  // those that the pass reaches last. Empty if the store's passes are one walk.
  std::vector<SweepRange> turns;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_SWEEP_OPERATIONS_H_
