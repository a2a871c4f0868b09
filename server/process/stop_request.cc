#include "server/process/stop_request.h"

namespace idempotency::internal {

void StopRequest::Request(const absl::Status& reason) {
  MutexLock lock(mutex_);
  if (!reason_.has_value()) reason_ = reason;
  requested_.NotifyAll();
}

absl::Status StopRequest::Wait() {
  MutexLock lock(mutex_);
  while (!reason_.has_value()) requested_.Wait(lock);
  return *reason_;
}

}  // namespace idempotency::internal
