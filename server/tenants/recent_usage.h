#ifndef IDEMPOTENCY_SERVER_TENANTS_RECENT_USAGE_H_
#define IDEMPOTENCY_SERVER_TENANTS_RECENT_USAGE_H_

#include <chrono>
#include <cstdint>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"

#include "server/store/namespace_usage.h"

namespace idempotency::internal {

// What was added to the usage of a namespace, each part until its records end. It keeps a few
// dozen sums for each power of two among the lives. Thread-compatible.
class RecentUsage {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // It counts for `life`, and up to a second or a sixteenth of `life` longer.
  void Add(const NamespaceUsage& more, Time now, absl::Duration life);
  // The sum of what counts now. `now` does not go back.
  NamespaceUsage At(Time now);
  void Clear();

 private:
  NamespaceUsage sum_;
  // By the second after which it no longer counts.
  absl::btree_map<std::int64_t, NamespaceUsage> ends_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_TENANTS_RECENT_USAGE_H_
