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

  // The handler has answered. True: the call is not cancelled any more, and `then` is not used.
  // False: it is just being cancelled, and the cancelling thread runs `then`, which may destroy
  // the call, when it is done. Once per call.
  bool End(std::function<void()> then);

 private:
  Mutex mutex_;
  std::function<void()> cancel_ ABSL_GUARDED_BY(mutex_);
  bool cancelling_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> then_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_CALL_CANCELLER_H_
