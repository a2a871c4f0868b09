#ifndef IDEMPOTENCY_SERVER_STORE_REDIS_SLOTS_H_
#define IDEMPOTENCY_SERVER_STORE_REDIS_SLOTS_H_

#include <string_view>

namespace idempotency::internal {

// The number of slots of a Redis Cluster.
inline constexpr int kRedisSlots = 16384;

// The slot of a key: CRC16 (XMODEM) of it, or of the part between the first { and the next }
// if that is not empty.
int RedisSlotOf(std::string_view key);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_REDIS_SLOTS_H_
