#include "interceptors/server/threads/outstanding_work.h"

namespace idempotency::internal {

OutstandingWork::Hold OutstandingWork::Begin() {
  {
    MutexLock lock(mutex_);
    ++count_;
  }
  return Hold(this, Ender{shared_from_this()});
}

bool OutstandingWork::WaitUntilIdle(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (count_ > 0) {
    if (!idle_.WaitUntil(lock, deadline)) return count_ == 0;
  }
  return true;
}

void OutstandingWork::End() {
  MutexLock lock(mutex_);
  if (--count_ == 0) idle_.NotifyAll();
}

}  // namespace idempotency::internal
