#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_INTERCEPTOR_FACTORY_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_INTERCEPTOR_FACTORY_H_

#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"

#include "interceptors/server/call/capturing_interceptor.h"
#include "interceptors/server/call/guarded_call.h"
#include "interceptors/server/reservation/reservation_client.h"

namespace idempotency::internal {

// Creates the capturing interceptor for calls of guarded methods only: even an idle interceptor
// costs a call more than the guard itself. Thread-safe.
class InterceptorFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // gRPC provides a path, "/payments.v1.Payments/Charge", but no host.
  using Paths = absl::flat_hash_set<std::string>;

  // `guard` outlives it.
  InterceptorFactory(Paths paths, const ReservationClient& guard)
      : paths_(std::move(paths)), guard_(guard) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    if (!paths_.contains(info->method())) return nullptr;
    // gRPC takes ownership.
    return std::make_unique<CapturingInterceptor>(info->server_context(),
                                                  std::make_shared<GuardedCall>(guard_))
        .release();
  }

 private:
  const Paths paths_;
  const ReservationClient& guard_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_INTERCEPTOR_FACTORY_H_
