#ifndef GRPC_IDEMPOTENCY_CLIENT_INTERCEPTOR_KEYED_CHANNEL_H_
#define GRPC_IDEMPOTENCY_CLIENT_INTERCEPTOR_KEYED_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <string>

#include "grpc_idempotency/client_interceptor/retry_policy.h"
#include "grpc_idempotency/log_sink.h"

namespace idempotency {

// Replaces grpc::CreateCustomChannel: creates a channel whose calls carry keys
// (MakeClientInterceptor). With the default arguments it retries, with the same key, the
// methods that the protos of this program declare as guarded, and idempotent methods
// (retry_policy.h). For services whose protos declare nothing, pass
// RetryingChannelArguments(policy, {"payments.v1.Payments"}). A second call of the stub is a
// second operation, unless you pin the key (WithKey, CallWithRetries). A program with its own
// interceptors creates its channel itself and includes MakeClientInterceptor() among them.
// `log` is MakeClientInterceptor's.
std::shared_ptr<grpc::Channel> CreateKeyedChannel(
    const std::string& target, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    const grpc::ChannelArguments& arguments = RetryingChannelArguments(), LogSink log = nullptr);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_INTERCEPTOR_KEYED_CHANNEL_H_
