#include "client/unary_connection.h"

#include <grpc/support/time.h>
#include <grpcpp/client_context.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "client/outstanding_calls.h"
#include "core/errors.h"
#include "core/grpc_status.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"

namespace idempotency {
namespace {

// For callers that pass the error on: about what reconnecting takes at first.
constexpr absl::Duration kRetryDelay = absl::Milliseconds(200);

// On gRPC's monotonic clock, so that a step of the wall clock moves nothing.
gpr_timespec ToGrpcDeadline(Connection::Deadline deadline) {
  if (deadline == Connection::Deadline::max()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  const auto remaining = std::chrono::duration_cast<std::chrono::nanoseconds>(
      deadline - std::chrono::steady_clock::now());
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(remaining.count(), GPR_TIMESPAN));
}

// What a caller is told about a status that the service did not choose.
std::string DescribeFailure(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::UNAVAILABLE:
      return "idempotencyd could not be reached, or the connection broke before it answered: "
             "repeat the call with the same tokens";
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return "idempotencyd did not answer before the deadline: repeat the call with the same "
             "tokens";
    case grpc::StatusCode::CANCELLED:
      return "the call was cancelled before idempotencyd answered: repeat the call with the same "
             "tokens";
    default:
      return absl::StrCat("the call to idempotencyd failed with status code ",
                          static_cast<int>(code),
                          " and no reason of its own: check the address, the credentials and what "
                          "stands between, then repeat the call with the same tokens");
  }
}

// Says in the log when the daemon goes and comes back, once each: a line per
// failed call would bury it. Thread-safe.
class ReachabilityLog {
 public:
  void Answered() {
    if (!reachable_.load(std::memory_order_relaxed) && !reachable_.exchange(true)) {
      spdlog::info("idempotencyd answers again");
    }
  }
  void Failed(const grpc::Status& status) {
    if (reachable_.load(std::memory_order_relaxed) && reachable_.exchange(false)) {
      spdlog::warn("calls to idempotencyd fail: status code {}: {}",
                   static_cast<int>(status.error_code()), status.error_message());
    }
  }

 private:
  std::atomic<bool> reachable_{true};
};

// One RPC with all that gRPC wants to stay alive until its callback.
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
  explicit UnaryConnection(std::shared_ptr<grpc::Channel> channel)
      : stub_(v1::IdempotencyService::NewStub(std::move(channel))) {}
  ~UnaryConnection() override { calls_.CancelAndWait(); }

  void Reserve(const v1::ReserveRequest& request, Deadline deadline,
               Callback<v1::ReserveResponse> done) override {
    Send(&Rpcs::Reserve, request, deadline, std::move(done));
  }
  void Complete(const v1::CompleteRequest& request, Deadline deadline,
                Callback<v1::CompleteResponse> done) override {
    Send(&Rpcs::Complete, request, deadline, std::move(done));
  }
  void Release(const v1::ReleaseRequest& request, Deadline deadline,
               Callback<v1::ReleaseResponse> done) override {
    Send(&Rpcs::Release, request, deadline, std::move(done));
  }
  void Extend(const v1::ExtendRequest& request, Deadline deadline,
              Callback<v1::ExtendResponse> done) override {
    Send(&Rpcs::Extend, request, deadline, std::move(done));
  }
  void Get(const v1::GetRequest& request, Deadline deadline,
           Callback<v1::GetResponse> done) override {
    Send(&Rpcs::Get, request, deadline, std::move(done));
  }

 private:
  using Rpcs = v1::IdempotencyService::StubInterface::async_interface;
  template <typename Request, typename Response>
  using Rpc = void (Rpcs::*)(grpc::ClientContext*, const Request*, Response*,
                             std::function<void(grpc::Status)>);

  template <typename Request, typename Response>
  void Send(Rpc<Request, Response> rpc, const Request& request, Deadline deadline,
            Callback<Response> done) {
    auto call = std::make_shared<UnaryCall<Request, Response>>(request, std::move(done));
    call->context.set_deadline(ToGrpcDeadline(deadline));
    calls_.Add(call);
    // A plain pointer: `calls_` owns the call, and decides when it is gone.
    auto* sent = call.get();
    call.reset();
    (stub_->async()->*rpc)(&sent->context, &sent->request, &sent->response,
                           [this, sent](const grpc::Status& status) {
                             if (status.ok()) {
                               reachability_.Answered();
                               sent->done(std::move(sent->response));
                             } else {
                               sent->done(ToError(status));
                             }
                             calls_.End(sent);
                           });
  }

  absl::Status ToError(const grpc::Status& status) {
    absl::Status from_service = FromGrpcStatus(status);
    if (ReasonOf(from_service).has_value()) {
      reachability_.Answered();
      return from_service;
    }
    // A passed deadline and our own closing say nothing about the daemon.
    const grpc::StatusCode code = status.error_code();
    if (code != grpc::StatusCode::DEADLINE_EXCEEDED && code != grpc::StatusCode::CANCELLED) {
      reachability_.Failed(status);
    }
    ErrorDetails details;
    details.retry_delay = kRetryDelay;
    return MakeError(Reason::kStoreUnavailable, DescribeFailure(code), std::move(details));
  }

  const std::unique_ptr<v1::IdempotencyService::StubInterface> stub_;
  ReachabilityLog reachability_;
  OutstandingCalls calls_;
};

}  // namespace

std::unique_ptr<Connection> MakeUnaryConnection(std::shared_ptr<grpc::Channel> channel) {
  return std::make_unique<UnaryConnection>(std::move(channel));
}

}  // namespace idempotency
