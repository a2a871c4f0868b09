#ifndef GRPC_IDEMPOTENCY_CLIENT_INTERCEPTOR_CLIENT_INTERCEPTOR_H_
#define GRPC_IDEMPOTENCY_CLIENT_INTERCEPTOR_CLIENT_INTERCEPTOR_H_

#include <grpcpp/support/client_interceptor.h>

#include <memory>

// WithKey, which belongs with it.
#include "grpc_idempotency/client/pinned_key.h"
#include "grpc_idempotency/log_sink.h"

namespace idempotency {

// Puts an `idempotency-key` (a new UUIDv7) on every call that has none and
// needs one: what the method's own proto says (keyed_methods.h) by the option
// (idempotency.v1.policy) or by protobuf's idempotency_level. Unary methods
// whose descriptor is not linked into this program get a key too. Where a
// method's policy names a `key_field`, a request that has it filled brings its
// own key, and any other gets one in its metadata; interceptors after this one
// see such a request serialised (GetSerializedSendMessage). gRPC's own retries
// of a call keep its key. A key that the caller put on the call (WithKey) is
// left alone.
//
// A call that a guarded handler attached to its execution (Execution::Attach)
// gets the key of that step, of whatever type it is, if it has a label or its
// method needs one. Where it cannot be given its key it is not sent, and fails
// with INTERNAL / DOWNSTREAM_REFUSED and the reason.
//
//   std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> all;
//   all.push_back(idempotency::MakeClientInterceptor());
//   auto channel = grpc::experimental::CreateCustomChannelWithInterceptors(
//       target, credentials, idempotency::RetryingChannelArguments(), std::move(all));
// Retries cover guarded methods only: see grpc_idempotency/client_interceptor/retry_policy.h.
//
// `log` is where its log lines go, one for each method whose steps are forgotten before
// the operation that makes them; empty: spdlog's default logger.
std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface> MakeClientInterceptor(
    LogSink log = nullptr);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_INTERCEPTOR_CLIENT_INTERCEPTOR_H_
