#ifndef IDEMPOTENCY_SERVER_RPC_QUEUED_SERVICES_H_
#define IDEMPOTENCY_SERVER_RPC_QUEUED_SERVICES_H_

#include <grpcpp/server_builder.h>

#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/idempotency_service.h"
#include "server/rpc/queued_methods.h"
#include "server/rpc/raw_service.h"

namespace idempotency::internal {

// IdempotencyService for a server whose calls arrive on completion queues.
class QueuedIdempotencyService {
 public:
  // `service` outlives the server that this is registered with, and so does this.
  explicit QueuedIdempotencyService(IdempotencyService& service) : service_(service) {}

  // The methods are called once the server is started.
  void Register(grpc::ServerBuilder& builder, QueuedMethods& methods);

 private:
  IdempotencyService& service_;
  RawService rpc_{v1::IdempotencyService::service_full_name()};
};

// The same of IdempotencyAdminService.
class QueuedAdminService {
 public:
  explicit QueuedAdminService(IdempotencyAdminService& service) : service_(service) {}

  void Register(grpc::ServerBuilder& builder, QueuedMethods& methods);

 private:
  IdempotencyAdminService& service_;
  RawService rpc_{v1::IdempotencyAdminService::service_full_name()};
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_QUEUED_SERVICES_H_
