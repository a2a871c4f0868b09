#include "client/retries/cancellable_tries.h"

#include <grpcpp/completion_queue.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "grpc_idempotency/deadline.h"

namespace idempotency::internal {

void CancellableTries::Cancel() {
  std::vector<Running*> tries;
  {
    MutexLock lock(mutex_);
    // The first call cancels the tries that run, and Running those that follow.
    if (std::exchange(cancelled_, true)) return;
    for (grpc::Alarm* const pause : pauses_) pause->Cancel();
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
  grpc::CompletionQueue queue;
  grpc::Alarm end;
  {
    MutexLock lock(mutex_);
    if (cancelled_) return;
    // A year replaces any longer time: beyond it the clock overflows.
    end.Set(&queue, GrpcDeadlineIn(std::min(pause, absl::Hours(24 * 365))), nullptr);
    pauses_.insert(&end);
  }
  void* tag = nullptr;
  bool passed = false;
  queue.Next(&tag, &passed);
  MutexLock lock(mutex_);
  pauses_.erase(&end);
}

}  // namespace idempotency::internal
