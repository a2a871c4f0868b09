#include "interceptors/server/call/call_canceller.h"

#include <utility>

namespace idempotency::internal {

void CallCanceller::Begin(std::function<void()> cancel) {
  MutexLock lock(mutex_);
  cancel_ = std::move(cancel);
}

void CallCanceller::Cancel() {
  std::function<void()> cancel;
  {
    MutexLock lock(mutex_);
    if (cancel_ == nullptr) return;
    cancel.swap(cancel_);
    cancelling_ = true;
  }
  cancel();
  std::function<void()> then;
  {
    MutexLock lock(mutex_);
    cancelling_ = false;
    then.swap(then_);
  }
  if (then != nullptr) then();
}

bool CallCanceller::End(std::function<void()> then) {
  MutexLock lock(mutex_);
  cancel_ = nullptr;
  if (!cancelling_) return true;
  then_ = std::move(then);
  return false;
}

}  // namespace idempotency::internal
