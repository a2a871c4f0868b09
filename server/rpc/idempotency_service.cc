#include "server/rpc/idempotency_service.h"

#include <memory>
#include <utility>

#include "server/rpc/unary_call.h"

namespace idempotency::internal {

IdempotencyService::IdempotencyService(Batcher& batcher, InFlightWaiters& waiters,
                                       Observer& observer, const IdempotencyServiceOptions& options)
    : operations_(batcher, waiters, observer, options),
      sessions_(observer),
      session_options_(options.session),
      access_(options.access),
      max_request_parsed_bytes_(options.max_request_parsed_bytes) {}

template <typename Request, typename Response>
grpc::ServerUnaryReactor* IdempotencyService::Answer(
    OperationKind kind, grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response,
    void (Operations::*ask)(const Request&, PendingResponse<Response>&, Batcher::Group*)) {
  // It deletes itself in OnDone.
  auto* const call =
      std::make_unique<UnaryCall<Request, Response>>(kind, context, operations_, access_, response)
          .release();
  // gRPC made the buffer for this call alone, and not const. Any rest in it stays until
  // the call has ended.
  call->Begin(const_cast<grpc::ByteBuffer&>(*request), max_request_parsed_bytes_, ask);
  return call;
}

grpc::ServerUnaryReactor* IdempotencyService::Reserve(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request,
                                                      grpc::ByteBuffer* response) {
  return Answer(OperationKind::kReserve, context, request, response, &Operations::Reserve);
}

grpc::ServerUnaryReactor* IdempotencyService::Complete(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request,
                                                       grpc::ByteBuffer* response) {
  return Answer(OperationKind::kComplete, context, request, response, &Operations::Complete);
}

grpc::ServerUnaryReactor* IdempotencyService::Release(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request,
                                                      grpc::ByteBuffer* response) {
  return Answer(OperationKind::kRelease, context, request, response, &Operations::Release);
}

grpc::ServerUnaryReactor* IdempotencyService::Extend(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return Answer(OperationKind::kExtend, context, request, response, &Operations::Extend);
}

grpc::ServerUnaryReactor* IdempotencyService::Get(grpc::CallbackServerContext* context,
                                                  const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return Answer(OperationKind::kGet, context, request, response, &Operations::Get);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* IdempotencyService::Session(
    grpc::CallbackServerContext* context) {
  std::unique_ptr<Caller> caller;
  if (access_ != nullptr) caller = std::make_unique<Caller>(*access_, *context);
  // It deletes itself in OnDone.
  auto* const stream =
      std::make_unique<SessionCall>(operations_, sessions_, session_options_, std::move(caller))
          .release();
  stream->Start();
  return stream;
}

}  // namespace idempotency::internal
