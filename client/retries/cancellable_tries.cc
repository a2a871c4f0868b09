#include "client/retries/cancellable_tries.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace idempotency::internal {

void CancellableTries::Cancel() {
  std::vector<Running*> tries;
  {
    MutexLock lock(mutex_);
    // The first call cancels the tries that run, and Running those that follow.
    if (std::exchange(cancelled_, true)) return;
    changed_.NotifyAll();
    tries.assign(running_.begin(), running_.end());
  }
  for (Running* running : tries) {
    {
      MutexLock lock(mutex_);
      // It may have ended. A new try at the same address may be cancelled twice.
      if (!running_.contains(running)) continue;
      running->cancelling_ = true;
    }
    // Without the lock: it runs the interceptors of the try's channel.
    running->context_.TryCancel();
    MutexLock lock(mutex_);
    running->cancelling_ = false;
    changed_.NotifyAll();
  }
}

bool CancellableTries::cancelled() const {
  MutexLock lock(mutex_);
  return cancelled_;
}

CancellableTries::Running::Running(CancellableTries& tries, grpc::ClientContext& context)
    : tries_(tries), context_(context) {
  {
    MutexLock lock(tries_.mutex_);
    tries_.running_.insert(this);
    if (!tries_.cancelled_) return;
  }
  // gRPC keeps this for a call that has not begun.
  context_.TryCancel();
}

CancellableTries::Running::~Running() {
  MutexLock lock(tries_.mutex_);
  tries_.running_.erase(this);
  // Cancel() uses the context, which the caller may destroy after this.
  while (cancelling_) tries_.changed_.Wait(lock);
}

void CancellableTries::Pause(absl::Duration pause) {
  // A year replaces any longer time: beyond it the clock overflows.
  const auto until = std::chrono::steady_clock::now() +
                     absl::ToChronoNanoseconds(std::min(pause, absl::Hours(24 * 365)));
  MutexLock lock(mutex_);
  while (!cancelled_ && changed_.WaitUntil(lock, until)) {
  }
}

}  // namespace idempotency::internal
