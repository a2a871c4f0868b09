#ifndef IDEMPOTENCY_SERVER_SERVICE_HEALTH_H_
#define IDEMPOTENCY_SERVER_SERVICE_HEALTH_H_

#include <grpcpp/health_check_service_interface.h>

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"

#include "core/mutex.h"

namespace idempotency::internal {

// The answers of grpc.health.v1.Health at every port of the process, for the port as a whole ("")
// and for its service: SERVING while the store commits, so that the next completion is durable, and
// the process is not draining. Thread-safe.
class Health {
 public:
  struct Port {
    // Outlives this.
    grpc::HealthCheckServiceInterface* health;
    // The full name of the service that the port is for.
    std::string service;
  };

  // Starts NOT_SERVING.
  explicit Health(std::vector<Port> ports);

  // The store's last answer. Changes are logged.
  void ReportStore(const absl::Status& status);
  // NOT_SERVING from now on, regardless of the store.
  void Drain();

 private:
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::vector<Port> ports_;
  Mutex mutex_;
  bool store_answers_ ABSL_GUARDED_BY(mutex_) = false;
  bool store_reported_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SERVICE_HEALTH_H_
