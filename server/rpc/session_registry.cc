#include "server/rpc/session_registry.h"

#include "absl/algorithm/container.h"

#include "server/rpc/session_call.h"

namespace idempotency::internal {

bool SessionRegistry::Add(SessionCall* stream) {
  MutexLock lock(mutex_);
  streams_.emplace(opened_, stream);
  places_.emplace(stream, opened_++);
  observer_.SessionsChanged(streams_.size());
  return draining_;
}

void SessionRegistry::Remove(SessionCall* stream) {
  MutexLock lock(mutex_);
  const std::uint64_t place = places_.find(stream)->second;
  while (absl::c_linear_search(visited_, place)) visit_ended_.Wait(lock);
  streams_.erase(place);
  places_.erase(stream);
  observer_.SessionsChanged(streams_.size());
}

void SessionRegistry::Drain() {
  {
    MutexLock lock(mutex_);
    if (draining_) return;
    draining_ = true;
  }
  // Later ones do so themselves; one that begins now may do so twice.
  ForEach([](std::uint64_t /*place*/, SessionCall& stream) {
    stream.AnnounceDraining();
    return false;
  });
}

void SessionRegistry::AnnounceRenewals() {
  ForEach([](std::uint64_t /*place*/, SessionCall& stream) {
    stream.AnnounceRenewal();
    return false;
  });
}

void SessionRegistry::ForEach(Visit abandon) {
  std::uint64_t end = 0;
  {
    MutexLock lock(mutex_);
    end = opened_;
  }
  for (std::uint64_t place = 0; SessionCall* const stream = BeginVisit(place, end); ++place) {
    const bool abandoned = abandon(place, *stream);
    VisitEnds(place);
    // An abandoned one stays until it is ended.
    if (abandoned) stream->EndAbandoned();
  }
}

SessionCall* SessionRegistry::BeginVisit(std::uint64_t& place, std::uint64_t end) {
  MutexLock lock(mutex_);
  const auto found = streams_.lower_bound(place);
  if (found == streams_.end() || found->first >= end) return nullptr;
  place = found->first;
  visited_.push_back(place);
  return found->second;
}

void SessionRegistry::VisitEnds(std::uint64_t place) {
  MutexLock lock(mutex_);
  visited_.erase(absl::c_find(visited_, place));
  visit_ended_.NotifyAll();
}

}  // namespace idempotency::internal
