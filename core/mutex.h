#ifndef IDEMPOTENCY_CORE_MUTEX_H_
#define IDEMPOTENCY_CORE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace idempotency::internal {

// std::mutex that clang's thread-safety analysis understands. Not absl::Mutex:
// Debian's abseil is not instrumented, so ThreadSanitizer cannot see its locks
// and reports every use as a race (docs/adr/0004).
class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class MutexLock;
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a Mutex for a scope.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

// std::condition_variable for a MutexLock. Write the predicate as a loop at the
// call, so that the analysis can determine its lock.
class CondVar {
 public:
  void Wait(MutexLock& lock) { condition_.wait(lock.lock_); }
  // False once `deadline` has passed.
  template <typename C, typename D>
  bool WaitUntil(MutexLock& lock, std::chrono::time_point<C, D> deadline) {
    return condition_.wait_until(lock.lock_, deadline) == std::cv_status::no_timeout;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_MUTEX_H_
