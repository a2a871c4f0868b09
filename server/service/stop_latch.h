#ifndef IDEMPOTENCY_SERVER_SERVICE_STOP_LATCH_H_
#define IDEMPOTENCY_SERVER_SERVICE_STOP_LATCH_H_

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

#include "core/mutex.h"

namespace idempotency::internal {

// Lets a background thread wait for a time, or until it must stop. Thread-safe.
class StopLatch {
 public:
  // Ends every wait, current and future. Idempotent.
  void Stop();
  // False if Stop() was called, before or meanwhile; true after `duration`.
  bool WaitFor(absl::Duration duration);

 private:
  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SERVICE_STOP_LATCH_H_
