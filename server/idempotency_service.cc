#include "server/idempotency_service.h"

#include <memory>
#include <optional>
#include <string>

#include "core/deadline.h"
#include "core/grpc_status.h"
#include "core/idempotency_key.h"
#include "server/pending_operation.h"

namespace idempotency {
namespace {

// The caller's deadline on our clock.
Batcher::Deadline DeadlineOf(const grpc::CallbackServerContext& context,
                             Batcher::Deadline arrived) {
  return SteadyDeadline(context.raw_deadline(), arrived);
}

// A call of a unary method. Deletes itself when gRPC is done with it.
template <typename Response>
class UnaryCall final : public grpc::ServerUnaryReactor, public PendingResponse<Response> {
 public:
  UnaryCall(OperationKind kind, grpc::CallbackServerContext* context, Operations& operations,
            Batcher::Deadline arrived, Response* response)
      : PendingResponse<Response>(kind, arrived, DeadlineOf(*context, arrived)),
        context_(context),
        operations_(operations),
        response_(response) {}

  // gRPC calls none of the reactions before the method's handler has returned,
  // so whatever waits is in place when they come.
  void OnCancel() override {
    if (this->waiting() != nullptr) operations_.wait_room().Cancel(this->waiting());
  }
  // The response has been written, or nobody takes it any more.
  void OnDone() override { delete this; }

 private:
  Response& response() override { return *response_; }

  void Finish(const absl::Status& status) override {
    if (const std::optional<std::string> pushback = PushbackOf(status)) {
      context_->AddTrailingMetadata(std::string(kPushbackMetadata), *pushback);
    }
    held_ = this->TakeHold();
    if (status.ok() && held_.bytes() == 0) {
      held_ = operations_.batcher().budget().HoldAnswer(response_->ByteSizeLong());
    }
    // Neither the context nor messages may be touched afterwards.
    grpc::ServerUnaryReactor::Finish(ToGrpcStatus(status));
  }

  grpc::CallbackServerContext* const context_;
  Operations& operations_;
  Response* const response_;
  // The response's part of the memory budget, until OnDone.
  MemoryBudget::Hold held_;
};

template <typename Request, typename Response>
grpc::ServerUnaryReactor* Answer(Operations& operations, OperationKind kind,
                                 grpc::CallbackServerContext* context, const Request* request,
                                 Response* response,
                                 void (Operations::*ask)(const Request&, PendingResponse<Response>&,
                                                         Batcher::Group*)) {
  // It deletes itself in OnDone.
  auto* const call = std::make_unique<UnaryCall<Response>>(kind, context, operations,
                                                           operations.clock().Monotonic(), response)
                         .release();
  (operations.*ask)(*request, *call, nullptr);
  return call;
}

}  // namespace

IdempotencyService::IdempotencyService(Batcher& batcher, WaitRoom& wait_room, Observer& observer,
                                       const IdempotencyServiceOptions& options)
    : operations_(batcher, wait_room, observer, options),
      sessions_(observer),
      session_options_(options.session) {}

grpc::ServerUnaryReactor* IdempotencyService::Reserve(grpc::CallbackServerContext* context,
                                                      const v1::ReserveRequest* request,
                                                      v1::ReserveResponse* response) {
  return Answer(operations_, OperationKind::kReserve, context, request, response,
                &Operations::Reserve);
}

grpc::ServerUnaryReactor* IdempotencyService::Complete(grpc::CallbackServerContext* context,
                                                       const v1::CompleteRequest* request,
                                                       v1::CompleteResponse* response) {
  return Answer(operations_, OperationKind::kComplete, context, request, response,
                &Operations::Complete);
}

grpc::ServerUnaryReactor* IdempotencyService::Release(grpc::CallbackServerContext* context,
                                                      const v1::ReleaseRequest* request,
                                                      v1::ReleaseResponse* response) {
  return Answer(operations_, OperationKind::kRelease, context, request, response,
                &Operations::Release);
}

grpc::ServerUnaryReactor* IdempotencyService::Extend(grpc::CallbackServerContext* context,
                                                     const v1::ExtendRequest* request,
                                                     v1::ExtendResponse* response) {
  return Answer(operations_, OperationKind::kExtend, context, request, response,
                &Operations::Extend);
}

grpc::ServerUnaryReactor* IdempotencyService::Get(grpc::CallbackServerContext* context,
                                                  const v1::GetRequest* request,
                                                  v1::GetResponse* response) {
  return Answer(operations_, OperationKind::kGet, context, request, response, &Operations::Get);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* IdempotencyService::Session(
    grpc::CallbackServerContext*) {
  // It deletes itself in OnDone.
  auto* const stream =
      std::make_unique<SessionStream>(operations_, sessions_, session_options_).release();
  stream->Start();
  return stream;
}

}  // namespace idempotency
