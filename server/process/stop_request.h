#ifndef IDEMPOTENCY_SERVER_PROCESS_STOP_REQUEST_H_
#define IDEMPOTENCY_SERVER_PROCESS_STOP_REQUEST_H_

#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"

#include "core/mutex.h"

namespace idempotency::internal {

// The event that the main thread waits for while the daemon serves.
// Thread-safe.
class StopRequest {
 public:
  // OK: an ordinary stop. Otherwise: the failure that ends the daemon. The first
  // call counts.
  void Request(const absl::Status& reason);
  // Returns the first reason once there is one.
  absl::Status Wait();

 private:
  Mutex mutex_;
  CondVar requested_;
  std::optional<absl::Status> reason_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_STOP_REQUEST_H_
