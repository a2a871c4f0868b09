#include "server/service/session_watch.h"

#include <pthread.h>

namespace idempotency::internal {

SessionWatch::SessionWatch(IdempotencyService& service, absl::Duration interval)
    : thread_([this, &service, interval] {
        pthread_setname_np(pthread_self(), "session-watch");
        while (stop_.WaitFor(interval)) service.EndStalledSessions();
      }) {}

SessionWatch::~SessionWatch() {
  stop_.Stop();
  thread_.join();
}

}  // namespace idempotency::internal
