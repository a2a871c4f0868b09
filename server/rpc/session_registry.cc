#include "server/rpc/session_registry.h"

#include <vector>

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
  const auto place = places_.find(stream);
  streams_.erase(place->second);
  places_.erase(place);
  observer_.SessionsChanged(streams_.size());
}

void SessionRegistry::Drain() {
  MutexLock lock(mutex_);
  if (draining_) return;
  draining_ = true;
  for (const auto& [place, stream] : streams_) stream->AnnounceDraining();
}

void SessionRegistry::EndStalled() {
  EndEach([](SessionCall& stream) { return stream.AbandonIfStalled(); });
}

void SessionRegistry::EndEach(absl::FunctionRef<bool(SessionCall&)> abandon) {
  std::uint64_t next = 0;
  bool more = true;
  while (more) {
    // They stay until they are ended.
    std::vector<SessionCall*> abandoned;
    {
      MutexLock lock(mutex_);
      auto at = streams_.lower_bound(next);
      for (int i = 0; i < kPerHold && at != streams_.end(); ++i, ++at) {
        if (abandon(*at->second)) abandoned.push_back(at->second);
        next = at->first + 1;
      }
      more = at != streams_.end();
    }
    for (SessionCall* const stream : abandoned) stream->EndAbandoned();
  }
}

}  // namespace idempotency::internal
