#include "client/retry_stopper.h"

#include <algorithm>
#include <chrono>

namespace idempotency {

void RetryStopper::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  // Under the lock, so that no context goes away in between.
  for (grpc::ClientContext* context : running_) context->TryCancel();
  stop_.NotifyAll();
}

bool RetryStopper::stopped() const {
  MutexLock lock(mutex_);
  return stopped_;
}

RetryStopper::RunningTry::RunningTry(RetryStopper& stopper, grpc::ClientContext& context)
    : stopper_(stopper), context_(context) {
  MutexLock lock(stopper_.mutex_);
  stopper_.running_.insert(&context_);
  // gRPC keeps this for a call that has not begun.
  if (stopper_.stopped_) context_.TryCancel();
}

RetryStopper::RunningTry::~RunningTry() {
  MutexLock lock(stopper_.mutex_);
  stopper_.running_.erase(&context_);
}

void RetryStopper::Pause(absl::Duration pause) {
  // A year stands for everything longer: further out the clock overflows.
  const auto until = std::chrono::steady_clock::now() +
                     absl::ToChronoNanoseconds(std::min(pause, absl::Hours(24 * 365)));
  MutexLock lock(mutex_);
  while (!stopped_ && stop_.WaitUntil(lock, until)) {
  }
}

}  // namespace idempotency
