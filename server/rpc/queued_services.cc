#include "server/rpc/queued_services.h"

#include "server/observability/observer.h"

namespace idempotency::internal {

void QueuedIdempotencyService::Register(grpc::ServerBuilder& builder, QueuedMethods& methods) {
  builder.RegisterService(this);
  const auto begin = [this](OperationKind kind) {
    return [this, kind](grpc::ServerContextBase* context, grpc::ByteBuffer* request,
                        grpc::ByteBuffer* response) {
      return service_.BeginCall(kind, context, request, response);
    };
  };
  using Methods = QueuedIdempotencyService;
  methods.Add(*this, &Methods::RequestReserve, begin(OperationKind::kReserve));
  methods.Add(*this, &Methods::RequestComplete, begin(OperationKind::kComplete));
  methods.Add(*this, &Methods::RequestRelease, begin(OperationKind::kRelease));
  methods.Add(*this, &Methods::RequestExtend, begin(OperationKind::kExtend));
  methods.Add(*this, &Methods::RequestGet, begin(OperationKind::kGet));
  methods.Add(*this, &Methods::RequestSession,
              [this](grpc::ServerContextBase* context) { return service_.BeginSession(context); });
}

void QueuedAdminService::Register(grpc::ServerBuilder& builder, QueuedMethods& methods) {
  builder.RegisterService(this);
  using Service = IdempotencyAdminService;
  const auto begin = [this](auto method) {
    return [this, method](grpc::ServerContextBase* context, grpc::ByteBuffer* request,
                          grpc::ByteBuffer* response) {
      return (service_.*method)(context, request, response);
    };
  };
  using Methods = QueuedAdminService;
  methods.Add(*this, &Methods::RequestList, begin(&Service::BeginList));
  methods.Add(*this, &Methods::RequestResolve, begin(&Service::BeginResolve));
  methods.Add(*this, &Methods::RequestPurge, begin(&Service::BeginPurge));
  methods.Add(*this, &Methods::RequestReseal, begin(&Service::BeginReseal));
  methods.Add(*this, &Methods::RequestListAudit, begin(&Service::BeginListAudit));
}

}  // namespace idempotency::internal
