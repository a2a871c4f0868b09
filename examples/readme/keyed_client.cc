// The README's way to put keys on a channel, compiled so that it stays true.
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

// [readme:client]
#include "grpc_idempotency/client_interceptor/client_interceptor.h"
#include "grpc_idempotency/client_interceptor/keyed_channel.h"

std::shared_ptr<grpc::Channel> KeyedChannel(const std::string& target) {
  return idempotency::CreateKeyedChannel(target, grpc::SslCredentials({}));
}

// For every repeat that you make yourself: a second call of the stub gets another key, and is a
// second operation, unless you pin the first one's. Store the key with the work.
absl::Status PinKey(grpc::ClientContext& context, const std::string& stored_key) {
  return idempotency::WithKey(context, stored_key);
}
// [readme:end]

// [readme:charge_retries]
// Retries Charge and nothing else: the proto declares a key for Refund, so the default arguments
// would retry it too.
std::shared_ptr<grpc::Channel> ChannelThatRetriesChargeAlone(
    const std::string& target, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  return idempotency::CreateKeyedChannel(
      target, credentials,
      idempotency::RetryingChannelArguments({}, {"payments.v1.Payments/Charge"}));
}
// [readme:end]
