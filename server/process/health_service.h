#ifndef IDEMPOTENCY_SERVER_PROCESS_HEALTH_SERVICE_H_
#define IDEMPOTENCY_SERVER_PROCESS_HEALTH_SERVICE_H_

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"

#include "core/mutex.h"
#include "server/rpc/queued_methods.h"
#include "server/rpc/raw_service.h"

namespace idempotency::internal {

// grpc.health.v1.Health on completion queues: gRPC's own has callback methods, whose polling
// threads every message of the process would pay for. Names without a status are unknown.
// Thread-safe.
class HealthService final : public grpc::HealthCheckServiceInterface {
 public:
  // A longer name of a service is unknown. As of gRPC's own service.
  static constexpr std::size_t kMaxNameBytes = 200;

  HealthService() = default;
  // After the server that it was registered with has ended.
  ~HealthService() override = default;

  // The methods are called once the server is started.
  void Register(grpc::ServerBuilder& builder, QueuedMethods& methods);

  void SetServingStatus(const std::string& name, bool serving) override ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets the status of every name that has one.
  void SetServingStatus(bool serving) override ABSL_LOCKS_EXCLUDED(mutex_);
  // None serves, whatever is set later.
  void Shutdown() override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;
  class CheckCall;
  class WatchCall;

  grpc::ServerUnaryReactor* BeginCheck(grpc::ByteBuffer* request, grpc::ByteBuffer* response)
      ABSL_LOCKS_EXCLUDED(mutex_);
  grpc::ServerWriteReactor<grpc::ByteBuffer>* BeginWatch(grpc::ByteBuffer* request)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // SERVICE_UNKNOWN of a name that has none.
  Status StatusOf(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Set(const std::string& name, Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void Publish(WatchCall& watch, Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends what the watch has not sent yet, or ends it.
  void Step(WatchCall& watch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnWritten(WatchCall& watch, bool ok) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnGone(WatchCall& watch) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(WatchCall& watch) ABSL_LOCKS_EXCLUDED(mutex_);

  RawService rpc_{grpc::health::v1::Health::service_full_name()};
  Mutex mutex_;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, Status> statuses_ ABSL_GUARDED_BY(mutex_);
  std::set<WatchCall*> watches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_HEALTH_SERVICE_H_
