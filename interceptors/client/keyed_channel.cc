#include "grpc_idempotency/client_interceptor/keyed_channel.h"

#include <grpcpp/create_channel.h>

#include <utility>
#include <vector>

#include "grpc_idempotency/client_interceptor/client_interceptor.h"

namespace idempotency {

std::shared_ptr<grpc::Channel> CreateKeyedChannel(
    const std::string& target, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    const grpc::ChannelArguments& arguments, LogSink log) {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(MakeClientInterceptor(std::move(log)));
  return grpc::experimental::CreateCustomChannelWithInterceptors(target, credentials, arguments,
                                                                 std::move(interceptors));
}

}  // namespace idempotency
