#include "client/retries/cancellable_tries.h"

#include <algorithm>
#include <chrono>

namespace idempotency::internal {

void CancellableTries::Cancel() {
  MutexLock lock(mutex_);
  cancelled_ = true;
  // Under the lock, so that no context is destroyed in between.
  for (grpc::ClientContext* context : running_) context->TryCancel();
  cancel_.NotifyAll();
}

bool CancellableTries::cancelled() const {
  MutexLock lock(mutex_);
  return cancelled_;
}

CancellableTries::Running::Running(CancellableTries& tries, grpc::ClientContext& context)
    : tries_(tries), context_(context) {
  MutexLock lock(tries_.mutex_);
  tries_.running_.insert(&context_);
  // gRPC keeps this for a call that has not begun.
  if (tries_.cancelled_) context_.TryCancel();
}

CancellableTries::Running::~Running() {
  MutexLock lock(tries_.mutex_);
  tries_.running_.erase(&context_);
}

void CancellableTries::Pause(absl::Duration pause) {
  // A year replaces any longer time: beyond it the clock overflows.
  const auto until = std::chrono::steady_clock::now() +
                     absl::ToChronoNanoseconds(std::min(pause, absl::Hours(24 * 365)));
  MutexLock lock(mutex_);
  while (!cancelled_ && cancel_.WaitUntil(lock, until)) {
  }
}

}  // namespace idempotency::internal
