#ifndef IDEMPOTENCY_SERVER_RPC_ADMIN_SERVICE_H_
#define IDEMPOTENCY_SERVER_RPC_ADMIN_SERVICE_H_

#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "idempotency/v1/admin_service.grpc.pb.h"
#include "server/operation/administration.h"
#include "server/queue/admin_worker.h"
#include "server/queue/memory_budget.h"

namespace idempotency::internal {

// All raw, as in IdempotencyService: a request is measured before it is parsed.
using AdminServiceMethods = v1::IdempotencyAdminService::WithRawCallbackMethod_List<
    v1::IdempotencyAdminService::WithRawCallbackMethod_Resolve<
        v1::IdempotencyAdminService::WithRawCallbackMethod_Purge<
            v1::IdempotencyAdminService::WithRawCallbackMethod_ListAudit<
                v1::IdempotencyAdminService::Service>>>>;

// The gRPC service idempotency.v1.IdempotencyAdminService. Its calls run one after the other on
// the worker. Thread-safe.
class IdempotencyAdminService final : public AdminServiceMethods {
 public:
  // Returns the caller's name for the audit log, 1-255 bytes of UTF-8 without control characters,
  // if it may administer the namespace; otherwise the refusal. Called on the worker's thread.
  using Authorize = std::function<absl::StatusOr<std::string>(
      const grpc::ServerContextBase& context, absl::string_view name_space)>;

  // All of them outlive the server that this is registered with. `budget` holds requests and
  // answers.
  IdempotencyAdminService(Administration& administration, AdminWorker& worker, MemoryBudget& budget,
                          Authorize authorize)
      : administration_(administration),
        worker_(worker),
        budget_(budget),
        authorize_(std::move(authorize)) {}

  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Resolve(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Purge(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ListAudit(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;

 private:
  template <typename Request, typename Response>
  class Call;

  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Answer(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
      grpc::ByteBuffer* response,
      absl::StatusOr<Response> (Administration::*method)(const Request&, const AdminCaller&));

  Administration& administration_;
  AdminWorker& worker_;
  MemoryBudget& budget_;
  const Authorize authorize_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_ADMIN_SERVICE_H_
