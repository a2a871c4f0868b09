#include "server/rpc/oldest_unread.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace idempotency::internal {
namespace {

std::size_t Less(std::size_t excess, std::size_t bytes) { return excess - std::min(excess, bytes); }

std::size_t ExcessOf(const HostAnswers* host, std::size_t pool) {
  return HasTooMuch(host, pool) ? host->load(std::memory_order_relaxed) - pool / 4 : 0;
}

}  // namespace

std::vector<UnreadAnswers> OldestUnread(std::vector<UnreadAnswers> all, std::size_t excess,
                                        std::size_t pool) {
  absl::flat_hash_map<const HostAnswers*, std::size_t> of_hosts;
  for (const UnreadAnswers& unread : all) {
    of_hosts.try_emplace(unread.host.get(), ExcessOf(unread.host.get(), pool));
  }
  std::stable_sort(all.begin(), all.end(), [](const UnreadAnswers& a, const UnreadAnswers& b) {
    return a.since < b.since;
  });
  std::vector<UnreadAnswers> oldest;
  for (const UnreadAnswers& unread : all) {
    std::size_t& of_host = of_hosts[unread.host.get()];
    if (excess == 0 && of_host == 0) continue;
    excess = Less(excess, unread.bytes);
    of_host = Less(of_host, unread.bytes);
    oldest.push_back(unread);
  }
  return oldest;
}

}  // namespace idempotency::internal
