#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_INTERCEPTOR_FACTORY_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_INTERCEPTOR_FACTORY_H_

#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"

#include "interceptors/server/capturing_interceptor.h"
#include "interceptors/server/guarded_method.h"

namespace idempotency {

// Makes the capturing interceptor for calls of guarded methods, and none for
// any other: even an idle one costs a call more than the guard itself.
// Thread-safe; the methods outlive it.
class InterceptorFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  using Methods = absl::flat_hash_map<std::string, const GuardedMethod*>;

  explicit InterceptorFactory(Methods methods) : methods_(std::move(methods)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    const auto method = methods_.find(info->method());
    if (method == methods_.end()) return nullptr;
    // gRPC takes ownership.
    return std::make_unique<CapturingInterceptor>(info->server_context(),
                                                  std::make_shared<GuardedCall>(*method->second))
        .release();
  }

 private:
  const Methods methods_;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_INTERCEPTOR_FACTORY_H_
