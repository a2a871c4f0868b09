#include "server/rpc/admin_service.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/absl_view.h"
#include "core/grpc_headers.h"
#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/idempotency_key.h"
#include "server/access/permission.h"
#include "server/limits.h"
#include "server/observability/operation_kind.h"
#include "server/operation/admin_place.h"
#include "server/rpc/unary_answers.h"
#include "server/rpc/unary_request.h"

namespace idempotency::internal {
namespace {

// The bound of a request once it is parsed.
constexpr std::size_t MaxParsedBytes(const v1::ResolveRequest* /*type*/) {
  return limits::kMaxResolveRequestBytes;
}
template <typename Request>
constexpr std::size_t MaxParsedBytes(const Request* /*type*/) {
  return limits::kMaxAdminRequestBytes;
}

}  // namespace

// One call. Deletes itself when gRPC is done with it.
template <typename Request, typename Response>
class IdempotencyAdminService::Call final : public grpc::ServerUnaryReactor {
 public:
  using Method = absl::StatusOr<Response> (Administration::*)(const Request&, const AdminCaller&);

  Call(IdempotencyAdminService& service, grpc::ServerContextBase* context,
       grpc::ByteBuffer* response, Method method, Permission permission)
      : service_(service),
        context_(context),
        bytes_(response),
        method_(method),
        permission_(permission),
        caller_(service.access_, *context) {}

  // Takes the request's bytes; answers on the worker, or at once if it is refused. A caller that
  // may do this nowhere takes no place in the worker's queue.
  void Begin(grpc::ByteBuffer& request) {
    if (absl::Status permitted = caller_.CheckAnywhere(permission_); !permitted.ok()) {
      request.Clear();
      return Refuse(permitted);
    }
    absl::StatusOr<MemoryBudget::Hold> hold = AdmitRequest(
        request, *Request::descriptor(), MaxParsedBytes(static_cast<const Request*>(nullptr)),
        OperationKind::kGet, service_.budget_);
    if (!hold.ok()) {
      request.Clear();
      return Refuse(hold.status());
    }
    hold_ = *std::move(hold);
    parsed_ = std::make_unique<UnaryRequest<Request>>();
    if (absl::Status readable = parsed_->Parse(request); !readable.ok()) return Refuse(readable);
    AdminPlace place = PlaceOfCall(parsed_->message(), caller_, permission_);
    if (!service_.budget_.TryAssign(hold_, place.owner)) return Refuse(NoRoomForRequest());
    if (service_.worker_.TryRun(std::move(place), [this] { Run(); })) return;
    Refuse(MakeError(Reason::kOverloaded,
                     "other calls of administrators wait or run; nothing was done, try again "
                     "later",
                     RetryAfter(retry_delays::kAdministratorsBusy)));
  }

  void OnCancel() override { gone_.store(true, std::memory_order_relaxed); }
  void OnDone() override { delete this; }

 private:
  void Run() {
    if (gone_.load(std::memory_order_relaxed)) return Refuse(absl::CancelledError("cancelled"));
    AdminCaller caller;
    caller.authorize = [this](std::string_view name_space) {
      return caller_.CheckNamespace(AbslView(name_space), permission_);
    };
    caller.gone = [this] { return gone_.load(std::memory_order_relaxed); };
    caller.pause = [this](absl::Duration rest) { return service_.worker_.Pause(rest); };
    const absl::StatusOr<Response> answer =
        (service_.administration_.*method_)(parsed_->message(), caller);
    if (!answer.ok()) return Refuse(answer.status());
    parsed_.reset();
    bool own_buffer = false;
    grpc::Status serialised =
        grpc::SerializationTraits<Response>::Serialize(*answer, bytes_, &own_buffer);
    Answer(serialised);
  }

  // Nothing may be used afterwards.
  void Refuse(const absl::Status& status) {
    service_.administration_.Refused(
        status, caller_, parsed_ == nullptr ? std::string() : NamedNamespace(parsed_->message()));
    parsed_.reset();
    if (const std::optional<std::string> pushback = PushbackOf(status)) {
      context_->AddTrailingMetadata(std::string(kPushbackMetadata), *pushback);
    }
    Answer(ToGrpcStatus(status));
  }

  // In place of Finish(); nothing may be used afterwards.
  void Answer(const grpc::Status& status) {
    hold_.Release();
    service_.unread_answers_.Send(
        {*context_, service_.administration_.clock().Monotonic(), AnswerBytes(*bytes_, status), {}},
        answer_);
    Finish(status);
  }

  IdempotencyAdminService& service_;
  grpc::ServerContextBase* const context_;
  grpc::ByteBuffer* const bytes_;
  const Method method_;
  const Permission permission_;
  Caller caller_;
  // The request's part of the memory budget.
  MemoryBudget::Hold hold_;
  // Until OnDone.
  UnaryAnswer answer_;
  // Until the answer is there: its caller may leave that unread.
  std::unique_ptr<UnaryRequest<Request>> parsed_;
  std::atomic<bool> gone_{false};
};

template <typename Request, typename Response>
grpc::ServerUnaryReactor* IdempotencyAdminService::Begin(
    grpc::ServerContextBase* context, grpc::ByteBuffer* request, grpc::ByteBuffer* response,
    absl::StatusOr<Response> (Administration::*method)(const Request&, const AdminCaller&),
    Permission permission) {
  // It deletes itself in OnDone.
  auto* const call =
      std::make_unique<Call<Request, Response>>(*this, context, response, method, permission)
          .release();
  call->Begin(*request);
  return call;
}

grpc::ServerUnaryReactor* IdempotencyAdminService::BeginList(grpc::ServerContextBase* context,
                                                             grpc::ByteBuffer* request,
                                                             grpc::ByteBuffer* response) {
  return Begin(context, request, response, &Administration::List, Permission::kRead);
}

grpc::ServerUnaryReactor* IdempotencyAdminService::BeginResolve(grpc::ServerContextBase* context,
                                                                grpc::ByteBuffer* request,
                                                                grpc::ByteBuffer* response) {
  return Begin(context, request, response, &Administration::Resolve, Permission::kAdmin);
}

grpc::ServerUnaryReactor* IdempotencyAdminService::BeginPurge(grpc::ServerContextBase* context,
                                                              grpc::ByteBuffer* request,
                                                              grpc::ByteBuffer* response) {
  return Begin(context, request, response, &Administration::Purge, Permission::kAdmin);
}

grpc::ServerUnaryReactor* IdempotencyAdminService::BeginReseal(grpc::ServerContextBase* context,
                                                               grpc::ByteBuffer* request,
                                                               grpc::ByteBuffer* response) {
  return Begin(context, request, response, &Administration::Reseal, Permission::kAdmin);
}

grpc::ServerUnaryReactor* IdempotencyAdminService::BeginListAudit(grpc::ServerContextBase* context,
                                                                  grpc::ByteBuffer* request,
                                                                  grpc::ByteBuffer* response) {
  return Begin(context, request, response, &Administration::ListAudit, Permission::kAdmin);
}

grpc::ServerUnaryReactor* IdempotencyAdminService::List(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request,
                                                        grpc::ByteBuffer* response) {
  return BeginList(context, OwnBuffer(request), response);
}

grpc::ServerUnaryReactor* IdempotencyAdminService::Resolve(grpc::CallbackServerContext* context,
                                                           const grpc::ByteBuffer* request,
                                                           grpc::ByteBuffer* response) {
  return BeginResolve(context, OwnBuffer(request), response);
}

grpc::ServerUnaryReactor* IdempotencyAdminService::Purge(grpc::CallbackServerContext* context,
                                                         const grpc::ByteBuffer* request,
                                                         grpc::ByteBuffer* response) {
  return BeginPurge(context, OwnBuffer(request), response);
}

grpc::ServerUnaryReactor* IdempotencyAdminService::Reseal(grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer* request,
                                                          grpc::ByteBuffer* response) {
  return BeginReseal(context, OwnBuffer(request), response);
}

grpc::ServerUnaryReactor* IdempotencyAdminService::ListAudit(grpc::CallbackServerContext* context,
                                                             const grpc::ByteBuffer* request,
                                                             grpc::ByteBuffer* response) {
  return BeginListAudit(context, OwnBuffer(request), response);
}

}  // namespace idempotency::internal
