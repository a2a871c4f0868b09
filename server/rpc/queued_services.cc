#include "server/rpc/queued_services.h"

#include "absl/strings/string_view.h"

#include "server/observability/operation_kind.h"

namespace idempotency::internal {

void QueuedIdempotencyService::Register(grpc::ServerBuilder& builder, QueuedMethods& methods) {
  rpc_.Register(builder, methods);
  const auto add = [&](absl::string_view method, OperationKind kind) {
    const auto begin = [this, kind](grpc::ServerContextBase* context, grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) {
      return service_.BeginCall(kind, context, request, response);
    };
    methods.Add(QueuedMethods::Unary{rpc_.Add(method), begin});
  };
  add("Reserve", OperationKind::kReserve);
  add("Complete", OperationKind::kComplete);
  add("Release", OperationKind::kRelease);
  add("Extend", OperationKind::kExtend);
  add("Get", OperationKind::kGet);
  methods.Add(QueuedMethods::BidiStream{
      rpc_.Add("Session"),
      [this](grpc::ServerContextBase* context) { return service_.BeginSession(context); }});
}

void QueuedAdminService::Register(grpc::ServerBuilder& builder, QueuedMethods& methods) {
  rpc_.Register(builder, methods);
  using Service = IdempotencyAdminService;
  const auto add = [&](absl::string_view method, auto begin) {
    const auto call = [this, begin](grpc::ServerContextBase* context, grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) {
      return (service_.*begin)(context, request, response);
    };
    methods.Add(QueuedMethods::Unary{rpc_.Add(method), call});
  };
  add("List", &Service::BeginList);
  add("Resolve", &Service::BeginResolve);
  add("Purge", &Service::BeginPurge);
  add("Reseal", &Service::BeginReseal);
  add("ListAudit", &Service::BeginListAudit);
}

}  // namespace idempotency::internal
