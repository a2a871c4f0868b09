#ifndef IDEMPOTENCY_SERVER_RPC_UNARY_CALL_H_
#define IDEMPOTENCY_SERVER_RPC_UNARY_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/grpc_headers.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/idempotency_key.h"
#include "server/access/access_control.h"
#include "server/operation/operation_of.h"
#include "server/operation/operations.h"
#include "server/operation/pending_operation.h"
#include "server/rpc/unary_answers.h"
#include "server/rpc/unary_request.h"
#include "server/rpc/unread_answer_limits.h"

namespace idempotency::internal {

// A call of a unary method, whose messages are parsed and serialised here: gRPC would
// parse a request of any resulting size, and keep it until the call has ended.
// Deletes itself when gRPC is done with it.
template <typename Request>
class UnaryCall final : public grpc::ServerUnaryReactor,
                        public PendingResponse<typename OperationOf<Request>::Response> {
 public:
  // `operations`, `unread_answers`, `access` and, until OnDone(), the rest outlive it. `response`
  // is empty. Without `access` everything is permitted.
  UnaryCall(grpc::ServerContextBase* context, Operations& operations,
            UnreadAnswerLimits& unread_answers, const AccessControl* access,
            grpc::ByteBuffer* response)
      : UnaryCall(context, operations, unread_answers, response, operations.clock().Monotonic()) {
    if (access != nullptr) this->SetCaller(&caller_.emplace(*access, *context));
    const auto traceparent = context->client_metadata().find(
        grpc::string_ref(kTraceparentName.data(), kTraceparentName.size()));
    // A caller without credentials makes no spans.
    if (traceparent != context->client_metadata().end() && (!caller_ || caller_->Name().ok())) {
      operations.StartSpan({traceparent->second.data(), traceparent->second.size()}, *this);
    }
  }

  // Takes the request's bytes, and answers now or when it is over.
  void Begin(grpc::ByteBuffer& request, std::size_t max_parsed_bytes) {
    absl::StatusOr<MemoryBudget::Hold> hold = AdmitRequest(
        request, *Request::descriptor(), max_parsed_bytes, this->kind(), operations_.budget());
    if (!hold.ok()) {
      request.Clear();
      return RefuseUnstarted(hold.status());
    }
    this->HoldRequest(*std::move(hold));
    UnaryRequest<Request> parsed;
    if (absl::Status readable = parsed.Parse(request); !readable.ok()) {
      return RefuseUnstarted(readable);
    }
    (operations_.*Operation::kBegin)(parsed.message(), *this, nullptr);
  }

  // gRPC calls none of the reactions before the method's handler has returned,
  // so the waiting operation is in place when they run.
  void OnCancel() override { operations_.Cancel(this->waiting()); }
  // The response has been written, or the caller no longer accepts it.
  void OnDone() override { delete this; }

 private:
  using Operation = OperationOf<Request>;
  using Response = typename Operation::Response;

  UnaryCall(grpc::ServerContextBase* context, Operations& operations,
            UnreadAnswerLimits& unread_answers, grpc::ByteBuffer* response,
            Batcher::Deadline arrived)
      : PendingResponse<Response>(Operation::kKind, arrived,
                                  SteadyDeadline(context->raw_deadline(), arrived)),
        context_(context),
        operations_(operations),
        unread_answers_(unread_answers),
        bytes_(response) {}

  Response& response() override { return response_.emplace(); }

  void RefuseUnstarted(const absl::Status& why) {
    if (why.code() == absl::StatusCode::kResourceExhausted) {
      operations_.observer().OperationShed(this->kind(), ShedReason::kQueue);
    }
    operations_.Refuse(*this, why);
  }

  void Finish(const absl::Status& status) override {
    if (const std::optional<std::string> pushback = PushbackOf(status)) {
      context_->AddTrailingMetadata(std::string(kPushbackMetadata), *pushback);
    }
    const grpc::Status sent = status.ok() ? Serialise() : ToGrpcStatus(status);
    unread_answers_.Send(
        {*context_, operations_.clock().Monotonic(), AnswerBytes(*bytes_, sent), this->TakeHold()},
        answer_);
    // Neither the context nor messages may be used afterwards.
    grpc::ServerUnaryReactor::Finish(sent);
  }

  // Only the bytes of the response are left.
  grpc::Status Serialise() {
    if (!response_.has_value()) response_.emplace();
    bool own_buffer = false;
    grpc::Status serialised =
        grpc::SerializationTraits<Response>::Serialize(*response_, bytes_, &own_buffer);
    response_.reset();
    return serialised;
  }

  grpc::ServerContextBase* const context_;
  Operations& operations_;
  UnreadAnswerLimits& unread_answers_;
  grpc::ByteBuffer* const bytes_;
  std::optional<Caller> caller_;
  std::optional<Response> response_;
  // Until OnDone.
  UnaryAnswer answer_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_UNARY_CALL_H_
