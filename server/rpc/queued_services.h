#ifndef IDEMPOTENCY_SERVER_RPC_QUEUED_SERVICES_H_
#define IDEMPOTENCY_SERVER_RPC_QUEUED_SERVICES_H_

#include <grpcpp/server_builder.h>

#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/idempotency_service.h"
#include "server/rpc/queued_methods.h"

namespace idempotency::internal {

// IdempotencyService for a server whose calls arrive on completion queues.
class QueuedIdempotencyService final
    : public v1::IdempotencyService::WithRawMethod_Reserve<
          v1::IdempotencyService::WithRawMethod_Complete<
              v1::IdempotencyService::WithRawMethod_Release<
                  v1::IdempotencyService::WithRawMethod_Extend<
                      v1::IdempotencyService::WithRawMethod_Get<
                          v1::IdempotencyService::WithRawMethod_Session<
                              v1::IdempotencyService::Service>>>>>> {
 public:
  // `service` outlives the server that this is registered with, and so does this.
  explicit QueuedIdempotencyService(IdempotencyService& service) : service_(service) {}

  // The methods are called once the server is started.
  void Register(grpc::ServerBuilder& builder, QueuedMethods& methods);

 private:
  IdempotencyService& service_;
};

// The same of IdempotencyAdminService.
class QueuedAdminService final
    : public v1::IdempotencyAdminService::WithRawMethod_List<
          v1::IdempotencyAdminService::WithRawMethod_Resolve<
              v1::IdempotencyAdminService::WithRawMethod_Purge<
                  v1::IdempotencyAdminService::WithRawMethod_Reseal<
                      v1::IdempotencyAdminService::WithRawMethod_ListAudit<
                          v1::IdempotencyAdminService::Service>>>>> {
 public:
  explicit QueuedAdminService(IdempotencyAdminService& service) : service_(service) {}

  void Register(grpc::ServerBuilder& builder, QueuedMethods& methods);

 private:
  IdempotencyAdminService& service_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_QUEUED_SERVICES_H_
