#include "interceptors/server/threads/outstanding_work.h"

namespace idempotency::internal {

OutstandingWork::Hold OutstandingWork::Begin() {
  count_.fetch_add(1, std::memory_order_relaxed);
  return Hold(this, Ender{shared_from_this()});
}

bool OutstandingWork::WaitUntilIdle(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (count_.load(std::memory_order_acquire) > 0) {
    if (!idle_.WaitUntil(lock, deadline)) return count_.load(std::memory_order_acquire) == 0;
  }
  return true;
}

void OutstandingWork::End() {
  if (count_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  // Under the lock: one that waits has looked at the count before, or looks after it.
  MutexLock lock(mutex_);
  idle_.NotifyAll();
}

}  // namespace idempotency::internal
