#include "server/service/periodic_thread.h"

#include <pthread.h>

#include <utility>

namespace idempotency::internal {

PeriodicThread::PeriodicThread(const char* name, absl::Duration first, Step step)
    : step_(std::move(step)) {
  thread_ = std::thread([this, name, first] {
    pthread_setname_np(pthread_self(), name);
    Run(first);
  });
}

void PeriodicThread::Stop() {
  stop_.Stop();
  if (thread_.joinable()) thread_.join();
}

void PeriodicThread::Run(absl::Duration first) {
  if (first > absl::ZeroDuration() && !stop_.WaitFor(first)) return;
  while (stop_.WaitFor(step_())) {
  }
}

}  // namespace idempotency::internal
