#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_REPLAY_CACHE_OPTIONS_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_REPLAY_CACHE_OPTIONS_H_

#include <cstddef>

#include "absl/time/time.h"

namespace idempotency {

// How much the guard remembers of completed operations, and for how long
// (docs/replay_cache.md).
struct ReplayCacheOptions {
  // What the kept replies may weigh, with their keys and the cache's own
  // overhead. 0 turns the cache off: the store is asked about every call. From
  // 1 MiB, if not 0. One reply may take 1 MiB of it, or a 64th if that is more
  // (a quarter of a capacity under 4 MiB); a larger one is not kept.
  //
  // On by default: a completed reply does not change, and a retry soon after
  // the first reply is the commonest kind of all, often made just when things
  // are slow. 64 MiB is 10 s of 3,000 operations a second with replies of 2 KB.
  // What is not used is not allocated.
  std::size_t capacity_bytes = 64 * 1024 * 1024;

  // The store is asked again after this: 1 ms to 10 minutes. So long may it
  // take until a guard follows a record that was removed or changed by hand.
  // 10 s: covers the retries of one call (five within 10 s, by the retry policy
  // of interceptors/client/), and is short for a person who has just removed a
  // record from the store's tables.
  absl::Duration max_age = absl::Seconds(10);
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_REPLAY_CACHE_OPTIONS_H_
