#include "interceptors/ext_proc/service/misconfigured_proxies.h"

#include <iterator>

namespace idempotency::internal {

void MisconfiguredProxies::Add(const std::string& peer, Time now) {
  MutexLock lock(mutex_);
  if (until_.size() >= kMaxConnections) {
    for (auto entry = until_.begin(); entry != until_.end();) {
      entry = entry->second <= now ? until_.erase(entry) : std::next(entry);
    }
  }
  if (until_.size() < kMaxConnections || until_.count(peer) > 0) until_[peer] = now + kRefusal;
}

bool MisconfiguredProxies::Has(const std::string& peer, Time now) {
  MutexLock lock(mutex_);
  const auto found = until_.find(peer);
  if (found == until_.end()) return false;
  if (found->second > now) return true;
  until_.erase(found);
  return false;
}

}  // namespace idempotency::internal
