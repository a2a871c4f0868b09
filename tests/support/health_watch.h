#ifndef IDEMPOTENCY_TESTS_SUPPORT_HEALTH_WATCH_H_
#define IDEMPOTENCY_TESTS_SUPPORT_HEALTH_WATCH_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "grpc/health/v1/health.grpc.pb.h"

#include "core/mutex.h"

namespace idempotency::internal::testing {

// Watches the health that a server reports. Thread-safe.
class HealthWatch {
 public:
  explicit HealthWatch(const std::string& address);
  ~HealthWatch();

  // Waits until the last report is (not) SERVING. False if it took too long.
  bool AwaitServing(bool serving, std::chrono::seconds limit = std::chrono::seconds(30));

 private:
  void Listen();

  const std::unique_ptr<grpc::health::v1::Health::Stub> stub_;
  grpc::ClientContext context_;
  Mutex mutex_;
  CondVar changed_;
  grpc::health::v1::HealthCheckResponse::ServingStatus last_ ABSL_GUARDED_BY(mutex_) =
      grpc::health::v1::HealthCheckResponse::UNKNOWN;
  std::thread thread_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_HEALTH_WATCH_H_
