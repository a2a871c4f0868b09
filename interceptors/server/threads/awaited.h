#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_AWAITED_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_AWAITED_H_

#include <memory>
#include <optional>
#include <utility>

#include "core/mutex.h"

namespace idempotency::internal {

// A callback's value, for a thread that waits for it. Shared by the two: the waiting thread may
// finish before the callback does. Thread-safe.
template <typename Value>
class Awaited {
 public:
  static std::shared_ptr<Awaited> Make() { return std::make_shared<Awaited>(); }

  // Once.
  void Set(Value value) {
    MutexLock lock(mutex_);
    value_.emplace(std::move(value));
    set_.NotifyAll();
  }
  // Once.
  Value Wait() {
    MutexLock lock(mutex_);
    while (!value_.has_value()) set_.Wait(lock);
    return *std::move(value_);
  }

 private:
  Mutex mutex_;
  CondVar set_;
  std::optional<Value> value_ ABSL_GUARDED_BY(mutex_);
};

// Calls `form`, the asynchronous form of an operation, with a callback, and waits for the
// callback's value.
template <typename Value, typename Form>
Value Await(const Form& form) {
  const auto awaited = Awaited<Value>::Make();
  form([awaited](Value value) { awaited->Set(std::move(value)); });
  return awaited->Wait();
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_AWAITED_H_
