#include "server/rpc/session_registry.h"

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
  MutexLock lock(mutex_);
  for (const auto& [place, stream] : streams_) stream->EndIfStalled();
}

}  // namespace idempotency::internal
