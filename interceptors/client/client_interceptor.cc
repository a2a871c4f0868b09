#include "interceptors/client/client_interceptor.h"

#include <map>
#include <string>

#include "core/clock.h"
#include "core/idempotency_key.h"
#include "core/uuid.h"
#include "interceptors/client/keyed_methods.h"

namespace idempotency {
namespace {

using grpc::experimental::ClientInterceptorFactoryInterface;
using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;

// Interceptors stand above gRPC's retries: this runs once for a call, and its
// metadata goes out with every attempt.
class KeyInterceptor final : public Interceptor {
 public:
  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      std::multimap<std::string, std::string>& metadata = *methods->GetSendInitialMetadata();
      const std::string name(kKeyMetadata);
      if (metadata.count(name) == 0) {
        metadata.emplace(name, Uuid::TimeOrdered(Clock::System().Now()).ToString());
      }
    }
    methods->Proceed();
  }
};

class KeyInterceptorFactory final : public ClientInterceptorFactoryInterface {
 public:
  // gRPC takes ownership; none for calls that get no key.
  Interceptor* CreateClientInterceptor(ClientRpcInfo* info) override {
    const bool unary = info->type() == ClientRpcInfo::Type::UNARY;
    if (!keyed_methods_.NeedsKey(info->method(), unary)) return nullptr;
    return std::make_unique<KeyInterceptor>().release();
  }

 private:
  KeyedMethods keyed_methods_{*google::protobuf::DescriptorPool::generated_pool()};
};

}  // namespace

std::unique_ptr<ClientInterceptorFactoryInterface> MakeClientInterceptor() {
  return std::make_unique<KeyInterceptorFactory>();
}

}  // namespace idempotency
