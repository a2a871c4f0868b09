#include "client/stoppable_tries.h"

#include <algorithm>
#include <chrono>

namespace idempotency::internal {

void StoppableTries::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  // Under the lock, so that no context goes away in between.
  for (grpc::ClientContext* context : running_) context->TryCancel();
  stop_.NotifyAll();
}

bool StoppableTries::stopped() const {
  MutexLock lock(mutex_);
  return stopped_;
}

StoppableTries::Running::Running(StoppableTries& tries, grpc::ClientContext& context)
    : tries_(tries), context_(context) {
  MutexLock lock(tries_.mutex_);
  tries_.running_.insert(&context_);
  // gRPC keeps this for a call that has not begun.
  if (tries_.stopped_) context_.TryCancel();
}

StoppableTries::Running::~Running() {
  MutexLock lock(tries_.mutex_);
  tries_.running_.erase(&context_);
}

void StoppableTries::Pause(absl::Duration pause) {
  // A year stands for everything longer: further out the clock overflows.
  const auto until = std::chrono::steady_clock::now() +
                     absl::ToChronoNanoseconds(std::min(pause, absl::Hours(24 * 365)));
  MutexLock lock(mutex_);
  while (!stopped_ && stop_.WaitUntil(lock, until)) {
  }
}

}  // namespace idempotency::internal
