#include "server/rpc/session_registry.h"

#include <algorithm>

#include "server/rpc/session_call.h"

namespace idempotency::internal {

bool SessionRegistry::Add(SessionCall* stream) {
  MutexLock lock(mutex_);
  streams_.push_back(stream);
  observer_.SessionsChanged(streams_.size());
  return draining_;
}

void SessionRegistry::Remove(SessionCall* stream) {
  MutexLock lock(mutex_);
  streams_.erase(std::find(streams_.begin(), streams_.end(), stream));
  observer_.SessionsChanged(streams_.size());
}

void SessionRegistry::Drain() {
  MutexLock lock(mutex_);
  if (draining_) return;
  draining_ = true;
  for (SessionCall* const stream : streams_) stream->AnnounceDraining();
}

}  // namespace idempotency::internal
