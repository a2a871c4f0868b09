#ifndef IDEMPOTENCY_SERVER_STORE_REDIS_TOMBSTONE_H_
#define IDEMPOTENCY_SERVER_STORE_REDIS_TOMBSTONE_H_

#include <optional>
#include <vector>

#include "server/store/admin_decision.h"
#include "server/store/redis/calls.h"

namespace idempotency::internal {

// The fields of a record that is reduced to its tombstone (SweepAction::kEntomb); its times stay
// unless others are given.
std::vector<RedisCalls::Field> RedisTombstoneFields(
    const std::optional<TombstoneTimes>& times = std::nullopt);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_REDIS_TOMBSTONE_H_
