#ifndef IDEMPOTENCY_EMBEDDED_CALL_DEADLINES_H_
#define IDEMPOTENCY_EMBEDDED_CALL_DEADLINES_H_

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"

namespace idempotency::internal {

// The deadlines of the calls whose callers wait: each expires once, although the service may keep
// the call for longer. Not thread-safe.
class CallDeadlines {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void Add(Time deadline, std::uint64_t id) { deadlines_.emplace(deadline, id); }
  // No effect for a call that has expired.
  void Remove(Time deadline, std::uint64_t id) { deadlines_.erase({deadline, id}); }

  // The calls whose deadline has passed, in the order of their deadlines; it no longer has them.
  std::vector<std::uint64_t> TakeExpired(Time now) {
    std::vector<std::uint64_t> expired;
    while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
      expired.push_back(deadlines_.begin()->second);
      deadlines_.erase(deadlines_.begin());
    }
    return expired;
  }

  // Time::max() without a call.
  Time next() const { return deadlines_.empty() ? Time::max() : deadlines_.begin()->first; }

 private:
  absl::btree_set<std::pair<Time, std::uint64_t>> deadlines_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_EMBEDDED_CALL_DEADLINES_H_
