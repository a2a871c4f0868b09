#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_REPLAY_CACHE_OPTIONS_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_REPLAY_CACHE_OPTIONS_H_

#include <cstddef>

#include "absl/time/time.h"

namespace idempotency {

// The size of the guard's cache of completed operations, and how long it keeps them
// (docs/replay_cache.md). A value type.
struct ReplayCacheOptions {
  // The maximum size of the kept replies, with their keys and the cache's own overhead. 0 turns
  // the cache off: the guard queries the store for every call. At least 1 MiB, if not 0. One
  // reply may take 1 MiB, or a 64th of the capacity if that is more (a quarter of a capacity
  // under 4 MiB); a larger one is not kept.
  //
  // On by default: a completed reply does not change, and a retry soon after the first reply is
  // the most common kind of retry, often made when the system is slow. 64 MiB holds 10 s of
  // 3,000 operations a second with replies of 2 KB. Unused capacity is not allocated.
  std::size_t capacity_bytes = 64 * 1024 * 1024;

  // The age at which the guard queries the store again: 1 ms to 10 minutes. After a record was
  // removed or changed by hand, a guard may answer from the old one for this long. 10 s: covers
  // gRPC's own retries of one call (five tries within a second or two, by retry_policy.h of the
  // client interceptor) and the first ones of CallWithRetries(), and is short for an operator who
  // has just removed a record from the store's tables.
  absl::Duration max_age = absl::Seconds(10);
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_REPLAY_CACHE_OPTIONS_H_
