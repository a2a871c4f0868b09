#include "server/service/session_watch.h"

#include <pthread.h>

namespace idempotency::internal {

void SessionWatch::Start() {
  MutexLock lock(mutex_);
  if (stopped_ || thread_.joinable()) return;
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "session-watch");
    while (stop_.WaitFor(interval_)) service_.EndStalledSessions();
  });
}

void SessionWatch::Stop() {
  stop_.Stop();
  MutexLock lock(mutex_);
  stopped_ = true;
  if (thread_.joinable()) thread_.join();
}

}  // namespace idempotency::internal
