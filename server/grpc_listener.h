#ifndef IDEMPOTENCY_SERVER_GRPC_LISTENER_H_
#define IDEMPOTENCY_SERVER_GRPC_LISTENER_H_

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/network_address.h"
#include "server/service_stack.h"

namespace idempotency {

// The gRPC server: one service of ours, with reflection, health and channelz
// beside it, on one address. Destruction shuts it down at once.
class GrpcListener {
 public:
  // FAILED_PRECONDITION if it cannot listen there. `stack` must outlive it.
  static absl::StatusOr<std::unique_ptr<GrpcListener>> Start(
      const NetworkAddress& address, const std::shared_ptr<grpc::ServerCredentials>& credentials,
      ServiceStack& stack);
  ~GrpcListener();
  GrpcListener(const GrpcListener&) = delete;
  GrpcListener& operator=(const GrpcListener&) = delete;

  // With the real port where 0 was asked for.
  const NetworkAddress& address() const { return address_; }
  grpc::HealthCheckServiceInterface* health() { return server_->GetHealthCheckService(); }

  // Stops accepting calls and waits for those that run; after `timeout` they
  // are cancelled. Returns when the last one has ended. Repeating it does
  // nothing.
  void Drain(absl::Duration timeout);

 private:
  GrpcListener(std::unique_ptr<grpc::Server> server, NetworkAddress address);

  const std::unique_ptr<grpc::Server> server_;
  const NetworkAddress address_;
  bool drained_ = false;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_GRPC_LISTENER_H_
