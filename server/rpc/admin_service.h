#ifndef IDEMPOTENCY_SERVER_RPC_ADMIN_SERVICE_H_
#define IDEMPOTENCY_SERVER_RPC_ADMIN_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/status/statusor.h"

#include "idempotency/v1/admin_service.grpc.pb.h"
#include "server/access/access_control.h"
#include "server/access/permission.h"
#include "server/operation/administration.h"
#include "server/queue/admin_worker.h"
#include "server/queue/memory_budget.h"
#include "server/rpc/unread_answer_limits.h"

namespace idempotency::internal {

// All raw, as in IdempotencyService: a request is measured before it is parsed.
using AdminServiceMethods = v1::IdempotencyAdminService::WithRawCallbackMethod_List<
    v1::IdempotencyAdminService::WithRawCallbackMethod_Resolve<
        v1::IdempotencyAdminService::WithRawCallbackMethod_Purge<
            v1::IdempotencyAdminService::WithRawCallbackMethod_Reseal<
                v1::IdempotencyAdminService::WithRawCallbackMethod_ListAudit<
                    v1::IdempotencyAdminService::Service>>>>>;

// The gRPC service idempotency.v1.IdempotencyAdminService. Its calls run one after the other on
// the worker. Thread-safe.
class IdempotencyAdminService final : public AdminServiceMethods {
 public:
  // All of them outlive the server that this is registered with. `budget` holds requests and
  // answers, and `unread_answers` ends calls whose callers do not read them. List needs
  // Permission::kRead in its namespace, the other methods kAdmin.
  IdempotencyAdminService(Administration& administration, AdminWorker& worker, MemoryBudget& budget,
                          const AccessControl& access, UnreadAnswerLimits& unread_answers)
      : administration_(administration),
        worker_(worker),
        budget_(budget),
        access_(access),
        unread_answers_(unread_answers) {}

  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Resolve(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Purge(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Reseal(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ListAudit(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;

  // The same methods under either API. `request` and `response` are of that call alone.
  grpc::ServerUnaryReactor* BeginList(grpc::ServerContextBase* context, grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response);
  grpc::ServerUnaryReactor* BeginResolve(grpc::ServerContextBase* context,
                                         grpc::ByteBuffer* request, grpc::ByteBuffer* response);
  grpc::ServerUnaryReactor* BeginPurge(grpc::ServerContextBase* context, grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response);
  grpc::ServerUnaryReactor* BeginReseal(grpc::ServerContextBase* context, grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response);
  grpc::ServerUnaryReactor* BeginListAudit(grpc::ServerContextBase* context,
                                           grpc::ByteBuffer* request, grpc::ByteBuffer* response);

 private:
  template <typename Request, typename Response>
  class Call;

  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Begin(
      grpc::ServerContextBase* context, grpc::ByteBuffer* request, grpc::ByteBuffer* response,
      absl::StatusOr<Response> (Administration::*method)(const Request&, const AdminCaller&),
      Permission permission);

  Administration& administration_;
  AdminWorker& worker_;
  MemoryBudget& budget_;
  const AccessControl& access_;
  UnreadAnswerLimits& unread_answers_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_ADMIN_SERVICE_H_
