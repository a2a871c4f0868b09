#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_REPLAY_CACHE_COUNTERS_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_REPLAY_CACHE_COUNTERS_H_

#include <cstddef>
#include <cstdint>

namespace idempotency {

// What a replay cache did since it was made, and what it holds. A value type.
struct ReplayCacheCounters {
  // Calls answered from the cache.
  std::uint64_t hits = 0;
  // Calls that the store was asked about; the first call of every operation is
  // one.
  std::uint64_t misses = 0;
  // Entries that had to make room while they could still have been of use. If
  // there are many, the capacity is too small.
  std::uint64_t evictions = 0;
  // What is held now, grants that wait for their reply among them.
  std::size_t entries = 0;
  std::size_t bytes = 0;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_REPLAY_CACHE_COUNTERS_H_
