#ifndef IDEMPOTENCY_SERVER_MALFORMED_REQUESTS_H_
#define IDEMPOTENCY_SERVER_MALFORMED_REQUESTS_H_

#include <grpcpp/support/server_interceptor.h>

namespace idempotency {

// Gives unary calls whose request cannot be parsed a reason: REQUEST_INVALID. gRPC
// answers them by itself, without asking the service, with UNIMPLEMENTED and no
// message, as if the method did not exist.
//
// Thread-safe.
class MalformedRequests final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // nullptr, which gRPC takes for none, for streams and for calls of other services.
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_MALFORMED_REQUESTS_H_
