#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_CALL_CANCELLER_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_CALL_CANCELLER_H_

#include <functional>

#include "core/mutex.h"

namespace idempotency::internal {

// Lets another thread cancel a call while its handler runs, and never later: the cancellation
// uses objects that are destroyed with the call. No thread waits for another, since gRPC may
// run arbitrary code inside its cancellation. Thread-safe.
class CallCanceller {
 public:
  // From now until End() the call can be cancelled with `cancel`.
  void Begin(std::function<void()> cancel);

  // Runs `cancel`, once. Does nothing before Begin() and after End().
  void Cancel();

  // The handler has answered. Runs `then`, which may destroy the call, at once or, if the call
  // is just being cancelled, on the cancelling thread when it is done. Once per call.
  void End(std::function<void()> then);

 private:
  Mutex mutex_;
  std::function<void()> cancel_ ABSL_GUARDED_BY(mutex_);
  bool cancelling_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> then_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_CALL_CANCELLER_H_
