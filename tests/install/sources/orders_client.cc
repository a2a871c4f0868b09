#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>
#include <vector>

#include "grpc_idempotency/client_interceptor/client_interceptor.h"
#include "orders.grpc.pb.h"

int main(int, char** arguments) {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(idempotency::MakeClientInterceptor());
  const auto stub = orders::Orders::NewStub(grpc::experimental::CreateCustomChannelWithInterceptors(
      arguments[1], grpc::InsecureChannelCredentials(), {}, std::move(interceptors)));
  grpc::ClientContext context;
  orders::Order order;
  return stub->Place(&context, order, &order).error_code();
}
