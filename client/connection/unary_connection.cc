#include "client/connection/unary_connection.h"

#include <grpcpp/client_context.h>

#include <chrono>
#include <functional>
#include <utility>
#include <variant>

#include "client/connection/caller_callback.h"
#include "client/connection/message_texts.h"
#include "client/connection/not_connected.h"
#include "client/connection/outstanding_calls.h"
#include "client/connection/transport_error_reporter.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"

namespace idempotency::internal {
namespace {

gpr_timespec ToGrpcDeadline(Connection::Deadline deadline) {
  return GrpcDeadlineIn(TimeUntil(deadline, std::chrono::steady_clock::now()));
}

// One RPC with the objects that gRPC needs until its callback.
template <typename Request, typename Response>
struct UnaryCall final : OutstandingCalls::Call {
  UnaryCall(const Request& request_in, Connection::Callback<Response> done_in)
      : request(request_in), done(std::move(done_in)) {}
  void Cancel() override { context.TryCancel(); }

  const Request request;
  Connection::Callback<Response> done;
  grpc::ClientContext context;
  Response response;
};

class UnaryConnection final : public Connection {
 public:
  UnaryConnection(std::shared_ptr<grpc::Channel> channel, const ApplicationLog& log)
      : channel_(channel),
        stub_(v1::IdempotencyService::NewStub(std::move(channel))),
        log_(log),
        transport_errors_(log) {}
  ~UnaryConnection() override { calls_.CancelAndWait(); }

  void Send(AnyConnectionCall call, Deadline deadline) override {
    std::visit(
        [this, deadline](auto& typed) {
          SendRpc(RpcFor(typed.request), typed.request, deadline, std::move(typed.done));
        },
        call);
  }

 private:
  using Rpcs = v1::IdempotencyService::StubInterface::async_interface;
  template <typename Request, typename Response>
  using Rpc = void (Rpcs::*)(grpc::ClientContext*, const Request*, Response*,
                             std::function<void(grpc::Status)>);

  static Rpc<v1::ReserveRequest, v1::ReserveResponse> RpcFor(const v1::ReserveRequest& /*r*/) {
    return &Rpcs::Reserve;
  }
  static Rpc<v1::CompleteRequest, v1::CompleteResponse> RpcFor(const v1::CompleteRequest& /*r*/) {
    return &Rpcs::Complete;
  }
  static Rpc<v1::ReleaseRequest, v1::ReleaseResponse> RpcFor(const v1::ReleaseRequest& /*r*/) {
    return &Rpcs::Release;
  }
  static Rpc<v1::ExtendRequest, v1::ExtendResponse> RpcFor(const v1::ExtendRequest& /*r*/) {
    return &Rpcs::Extend;
  }
  static Rpc<v1::GetRequest, v1::GetResponse> RpcFor(const v1::GetRequest& /*r*/) {
    return &Rpcs::Get;
  }

  template <typename Request, typename Response>
  void SendRpc(Rpc<Request, Response> rpc, const Request& request, Deadline deadline,
               Callback<Response> done) {
    if (absl::Status valid = ValidateTexts(request); !valid.ok()) {
      return AnswerCaller<Response>(log_, done, std::move(valid));
    }
    if (deadline <= std::chrono::steady_clock::now()) {
      // gRPC 1.83 may send such a call, and return its answer.
      return AnswerCaller<Response>(
          log_, done,
          transport_errors_.Failed(
              grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "the deadline has passed")));
    }
    if (transport_errors_.fails() && !Connected()) {
      return AnswerCaller<Response>(log_, done, NotConnected());
    }
    auto call = std::make_shared<UnaryCall<Request, Response>>(request, std::move(done));
    call->context.set_deadline(ToGrpcDeadline(deadline));
    calls_.Add(call);
    // A plain pointer: `calls_` owns the call and determines its lifetime.
    auto* sent = call.get();
    call.reset();
    (stub_->async()->*rpc)(
        &sent->context, &sent->request, &sent->response, [this, sent](const grpc::Status& status) {
          if (status.ok()) {
            transport_errors_.Answered();
            AnswerCaller<Response>(log_, sent->done, std::move(sent->response));
          } else {
            AnswerCaller<Response>(log_, sent->done, transport_errors_.Failed(status));
          }
          calls_.End(sent);
        });
  }

  // Also true if it is not known. Read only after a failure: an in-process
  // channel has no such state. Read only before a call is sent: after its end
  // it proves nothing, for the connection that the call had may be lost.
  bool Connected() {
    return channel_->GetState(/*try_to_connect=*/true) != GRPC_CHANNEL_TRANSIENT_FAILURE;
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::IdempotencyService::StubInterface> stub_;
  const ApplicationLog log_;
  TransportErrorReporter transport_errors_;
  OutstandingCalls calls_;
};

}  // namespace

std::unique_ptr<Connection> MakeUnaryConnection(std::shared_ptr<grpc::Channel> channel,
                                                const ApplicationLog& log) {
  return std::make_unique<UnaryConnection>(std::move(channel), log);
}

}  // namespace idempotency::internal
