#ifndef IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_STOP_SIGN_H_
#define IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_STOP_SIGN_H_

#include <chrono>

#include "core/mutex.h"

namespace idempotency::internal::testing {

// Signals threads to end, and wakes those that pause. Thread-safe.
class StopSign {
 public:
  void Raise() {
    MutexLock lock(mutex_);
    raised_ = true;
    changed_.NotifyAll();
  }
  // False once it is raised.
  bool Pause(std::chrono::milliseconds pause) {
    const auto until = std::chrono::steady_clock::now() + pause;
    MutexLock lock(mutex_);
    while (!raised_ && changed_.WaitUntil(lock, until)) {
    }
    return !raised_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool raised_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_STOP_SIGN_H_
