#ifndef IDEMPOTENCY_INTERCEPTORS_CLIENT_CLIENT_INTERCEPTOR_H_
#define IDEMPOTENCY_INTERCEPTORS_CLIENT_CLIENT_INTERCEPTOR_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <string_view>

#include "absl/status/status.h"

namespace idempotency {

// Puts an `idempotency-key` (a new UUIDv7) on every unary call that has none,
// except to methods whose protobuf idempotency_level is NO_SIDE_EFFECTS or
// IDEMPOTENT. gRPC's own retries of a call keep its key. Methods whose
// descriptor is not linked into this program get a key too. A key that the
// caller put on the call (WithKey) is left alone.
//
//   std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> all;
//   all.push_back(idempotency::MakeClientInterceptor());
//   auto channel = grpc::experimental::CreateCustomChannelWithInterceptors(
//       target, credentials, idempotency::RetryingChannelArguments(), std::move(all));
std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface> MakeClientInterceptor();

// Pins the key of one call, for retries that outlive this process: store the
// key with the work, send it on every try. Once per context: a guard refuses a
// call with two different keys. INVALID_ARGUMENT / KEY_INVALID for a key that
// no guard would take; the context is then unchanged.
absl::Status WithKey(grpc::ClientContext& context, std::string_view key);

}  // namespace idempotency

#endif  // IDEMPOTENCY_INTERCEPTORS_CLIENT_CLIENT_INTERCEPTOR_H_
