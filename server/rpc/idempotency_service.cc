#include "server/rpc/idempotency_service.h"

#include <memory>
#include <utility>

#include "server/rpc/remote_address.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/unary_request.h"

namespace idempotency::internal {

IdempotencyService::IdempotencyService(Batcher& batcher, InFlightWaiters& waiters,
                                       Observer& observer, const IdempotencyServiceOptions& options)
    : operations_(batcher, waiters, observer, options),
      sessions_(observer),
      unread_answers_(sessions_, operations_.budget(), options.first_call),
      session_options_(options.session),
      access_(options.access),
      max_request_parsed_bytes_(options.max_request_parsed_bytes) {}

template <typename Request>
grpc::ServerUnaryReactor* IdempotencyService::Begin(grpc::ServerContextBase* context,
                                                    grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  // It deletes itself in OnDone.
  auto* const call =
      std::make_unique<UnaryCall<Request>>(context, operations_, unread_answers_, access_, response)
          .release();
  // Any rest in the request stays until the call has ended.
  call->Begin(*request, max_request_parsed_bytes_);
  return call;
}

grpc::ServerUnaryReactor* IdempotencyService::BeginCall(OperationKind kind,
                                                        grpc::ServerContextBase* context,
                                                        grpc::ByteBuffer* request,
                                                        grpc::ByteBuffer* response) {
  switch (kind) {
    case OperationKind::kReserve:
      return Begin<v1::ReserveRequest>(context, request, response);
    case OperationKind::kComplete:
      return Begin<v1::CompleteRequest>(context, request, response);
    case OperationKind::kRelease:
      return Begin<v1::ReleaseRequest>(context, request, response);
    case OperationKind::kExtend:
      return Begin<v1::ExtendRequest>(context, request, response);
    case OperationKind::kGet:
      break;
  }
  return Begin<v1::GetRequest>(context, request, response);
}

grpc::ServerUnaryReactor* IdempotencyService::Reserve(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request,
                                                      grpc::ByteBuffer* response) {
  return BeginCall(OperationKind::kReserve, context, OwnBuffer(request), response);
}

grpc::ServerUnaryReactor* IdempotencyService::Complete(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request,
                                                       grpc::ByteBuffer* response) {
  return BeginCall(OperationKind::kComplete, context, OwnBuffer(request), response);
}

grpc::ServerUnaryReactor* IdempotencyService::Release(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request,
                                                      grpc::ByteBuffer* response) {
  return BeginCall(OperationKind::kRelease, context, OwnBuffer(request), response);
}

grpc::ServerUnaryReactor* IdempotencyService::Extend(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return BeginCall(OperationKind::kExtend, context, OwnBuffer(request), response);
}

grpc::ServerUnaryReactor* IdempotencyService::Get(grpc::CallbackServerContext* context,
                                                  const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return BeginCall(OperationKind::kGet, context, OwnBuffer(request), response);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* IdempotencyService::Session(
    grpc::CallbackServerContext* context) {
  return BeginSession(context);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* IdempotencyService::BeginSession(
    grpc::ServerContextBase* context) {
  std::unique_ptr<Caller> caller;
  if (access_ != nullptr) caller = std::make_unique<Caller>(*access_, *context);
  // It deletes itself in OnDone.
  auto* const stream =
      std::make_unique<SessionCall>(
          operations_, sessions_, unread_answers_, session_options_,
          [context] { context->TryCancel(); }, std::move(caller), HostOfPeer(context->peer()))
          .release();
  stream->Start();
  return stream;
}

}  // namespace idempotency::internal
