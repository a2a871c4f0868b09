#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_SWEEP_PLACE_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_SWEEP_PLACE_H_

#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/sweep_operations.h"

namespace idempotency::internal {

// Where a sweep stands: the id of a UUIDv7 key's record, or a place in the walk by age, which
// follows all of those.

// The place before the first hashed id. Every place from here on belongs to the
// walk by age: a 1 bit, 63 bits of microseconds since 2000, the first half of
// the id. (Two records of one microsecond whose ids share 63 bits of hash: the
// second waits for the next pass.)
Uuid HashedStart();
// Behind every place of the walk by age.
Uuid HashedEnd();
bool IsHashed(const Uuid& id);

Uuid PlaceByAge(absl::Time created_at, const Uuid& id);
// The pair that the place encodes: everything up to it has been visited.
std::pair<absl::Time, Uuid> AgeOf(const Uuid& place);

// Of the walk by id: no record of a UUIDv7 key with this time or a later one is before it.
Uuid PlaceByTime(absl::Time time);

// SweepProgress::turns.
std::vector<SweepRange> SweepTurns(absl::Time now);

// SweepProgress::quiet is zero where `next` is at or behind the place at which records are added at
// `now`, by callers whose clocks are behind by sweep_limits::kSettled at most.
void LeaveOpen(absl::Time now, SweepProgress& progress);

// `op` with its `narrow` applied to `until` and `limit`. It stays within one of the walks.
SweepOp Narrowed(const SweepOp& op);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_SWEEP_PLACE_H_
