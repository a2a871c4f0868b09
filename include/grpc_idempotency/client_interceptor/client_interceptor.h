#ifndef GRPC_IDEMPOTENCY_CLIENT_INTERCEPTOR_CLIENT_INTERCEPTOR_H_
#define GRPC_IDEMPOTENCY_CLIENT_INTERCEPTOR_CLIENT_INTERCEPTOR_H_

#include <grpcpp/support/client_interceptor.h>

#include <memory>

// WithKey, which belongs with it.
#include "grpc_idempotency/client/pinned_key.h"
#include "grpc_idempotency/log_sink.h"

namespace idempotency {

// Adds an `idempotency-key` (a new UUIDv7) to every call that has none and needs one. The
// method's own proto decides (docs/rollout.md), by the option (idempotency.v1.policy) or by
// protobuf's idempotency_level. Unary methods whose descriptor is not linked into this program
// get a key too. If a method's policy names a `key_field`, a request with this field set has
// its own key, and any other gets a key in its metadata; interceptors after this one see such a
// request serialised (GetSerializedSendMessage). gRPC's own retries of a call keep its key. A
// key that the caller set on the call (WithKey) is not changed.
//
// A second call of the stub is a second operation, unless you pin the key: the interceptor makes a
// new key for it, and the caller does not receive the first one. For repeats of your own use
// WithKey with a stored key, or CallWithRetries (grpc_idempotency/client/call_with_retries.h).
//
// A call of any type that a guarded handler attached to its execution (Execution::Attach) gets
// the key of that step, if it has a label or its method needs a key. If its key cannot be set,
// the call is not sent and fails with INTERNAL / DOWNSTREAM_REFUSED and the reason.
//
//   std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> all;
//   all.push_back(idempotency::MakeClientInterceptor());
//   auto channel = grpc::experimental::CreateCustomChannelWithInterceptors(
//       target, credentials, idempotency::RetryingChannelArguments(), std::move(all));
// Retries cover guarded methods only: see grpc_idempotency/client_interceptor/retry_policy.h.
//
// `log` receives one line for each method whose steps expire before the operation that makes
// them; empty: spdlog's default logger.
std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface> MakeClientInterceptor(
    LogSink log = nullptr);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_INTERCEPTOR_CLIENT_INTERCEPTOR_H_
