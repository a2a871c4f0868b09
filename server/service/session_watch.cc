#include "server/service/session_watch.h"

namespace idempotency::internal {

void SessionWatch::Start() {
  MutexLock lock(mutex_);
  if (stopped_ || thread_.has_value()) return;
  thread_.emplace("session-watch", interval_, [this] {
    service_.EndStalledCalls();
    return interval_;
  });
}

void SessionWatch::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  thread_.reset();
}

}  // namespace idempotency::internal
