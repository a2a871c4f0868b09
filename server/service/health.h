#ifndef IDEMPOTENCY_SERVER_SERVICE_HEALTH_H_
#define IDEMPOTENCY_SERVER_SERVICE_HEALTH_H_

#include <grpcpp/health_check_service_interface.h>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"

#include "core/mutex.h"

namespace idempotency::internal {

// The answers of grpc.health.v1.Health, for the server as a whole ("") and for
// idempotency.v1.IdempotencyService: SERVING while the store commits, so that the
// next completion is durable, and the server is not draining. Thread-safe.
class Health {
 public:
  // Starts NOT_SERVING. `service` must outlive it.
  explicit Health(grpc::HealthCheckServiceInterface* service);

  // The store's last answer. Changes are logged.
  void ReportStore(const absl::Status& status);
  // NOT_SERVING from now on, regardless of the store.
  void Drain();

 private:
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  grpc::HealthCheckServiceInterface* const service_;
  Mutex mutex_;
  bool store_answers_ ABSL_GUARDED_BY(mutex_) = false;
  bool store_reported_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SERVICE_HEALTH_H_
