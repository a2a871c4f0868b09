#include "server/service/stop_latch.h"

#include <chrono>

namespace idempotency::internal {

void StopLatch::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  changed_.NotifyAll();
}

bool StopLatch::WaitFor(absl::Duration duration) {
  const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(duration);
  MutexLock lock(mutex_);
  while (!stopped_ && changed_.WaitUntil(lock, deadline)) {
  }
  return !stopped_;
}

}  // namespace idempotency::internal
