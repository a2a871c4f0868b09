#ifndef IDEMPOTENCY_TESTS_SUPPORT_GATE_H_
#define IDEMPOTENCY_TESTS_SUPPORT_GATE_H_

#include <chrono>

#include "core/mutex.h"

namespace idempotency::internal::testing {

// Holds a handler until the test opens it, and notifies the test when the handler has entered.
// Thread-safe.
class Gate {
 public:
  // For the handler: reports its entry, then waits until it is opened.
  void Enter() {
    MutexLock lock(mutex_);
    ++inside_;
    changed_.NotifyAll();
    while (!open_) changed_.Wait(lock);
  }
  // For the test: waits until `count` handlers have entered. False after 20 s.
  bool AwaitInside(int count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    MutexLock lock(mutex_);
    while (inside_ < count) {
      if (!changed_.WaitUntil(lock, deadline) && inside_ < count) return false;
    }
    return true;
  }
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }
  // The number that have ever entered.
  int inside() {
    MutexLock lock(mutex_);
    return inside_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_GATE_H_
