#include "server/malformed_requests.h"

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

#include "core/errors.h"
#include "core/grpc_status.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"

namespace idempotency {
namespace {

using grpc::experimental::InterceptionHookPoints;

bool IsOurs(absl::string_view method) {
  return absl::ConsumePrefix(&method, "/") &&
         absl::ConsumePrefix(&method, v1::IdempotencyService::service_full_name()) &&
         absl::StartsWith(method, "/");
}

class MalformedRequest final : public grpc::experimental::Interceptor {
 public:
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE)) {
      malformed_ = methods->GetRecvMessage() == nullptr;
    }
    if (malformed_ &&
        methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      methods->ModifySendStatus(ToGrpcStatus(MakeError(
          Reason::kRequestInvalid,
          "the request is not a message of this method: its bytes are damaged, a text in it is "
          "not UTF-8, or the client was built from another .proto file")));
    }
    methods->Proceed();
  }

 private:
  bool malformed_ = false;
};

}  // namespace

grpc::experimental::Interceptor* MalformedRequests::CreateServerInterceptor(
    grpc::experimental::ServerRpcInfo* info) {
  // On a stream "no message" is also how the caller's half-close looks; Session
  // reads its frames itself.
  const bool unary = info->type() == grpc::experimental::ServerRpcInfo::Type::UNARY;
  if (!unary || !IsOurs(info->method())) return nullptr;
  // gRPC owns it.
  return std::make_unique<MalformedRequest>().release();
}

}  // namespace idempotency
