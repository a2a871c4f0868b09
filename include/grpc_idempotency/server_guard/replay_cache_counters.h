#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_REPLAY_CACHE_COUNTERS_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_REPLAY_CACHE_COUNTERS_H_

#include <cstddef>
#include <cstdint>

namespace idempotency {

// The activity of a replay cache since its creation, and its present size. A value type.
struct ReplayCacheCounters {
  // Calls answered from the cache.
  std::uint64_t hits = 0;
  // Calls for which the guard queried the store, including the first call of every operation.
  std::uint64_t misses = 0;
  // Entries evicted while they could still have been used. If there are many, the capacity is
  // too small.
  std::uint64_t evictions = 0;
  // The present entries and their size, including grants that wait for their reply.
  std::size_t entries = 0;
  std::size_t bytes = 0;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_REPLAY_CACHE_COUNTERS_H_
