#include "grpc_idempotency/client_interceptor/client_interceptor.h"

#include <map>
#include <string>
#include <utility>

#include "client/downstream/parent_table.h"
#include "core/clock.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/uuid.h"
#include "interceptors/client/attached_call.h"
#include "interceptors/client/keyed_methods.h"
#include "interceptors/client/request_key_field.h"
#include "interceptors/client/retention_watch.h"

namespace idempotency {
namespace internal {
namespace {

using grpc::experimental::ClientInterceptorFactoryInterface;
using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;

// Interceptors are above gRPC's retries: this one runs once for a call, and its metadata is
// sent with every attempt.
class KeyInterceptor final : public Interceptor {
 public:
  KeyInterceptor(std::string method, KeyedMethods::Answer keyed, RetentionWatch& retentions)
      : method_(std::move(method)), keyed_(keyed), retentions_(retentions) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (!refusal_.ok()) {
      Answer(*methods);
    } else if (methods->QueryInterceptionHookPoint(
                   InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      refusal_ = PutKey(*methods->GetSendInitialMetadata(), NeedsKey(*methods));
      if (!refusal_.ok()) {
        // Answered here instead of by gRPC: the answer arrives with the receiving half.
        methods->Hijack();
        return;
      }
    }
    if (parent_ != nullptr &&
        methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_STATUS)) {
      LookAtRetention(*methods->GetRecvTrailingMetadata());
    }
    methods->Proceed();
  }

 private:
  bool NeedsKey(InterceptorBatchMethods& methods) const {
    if (keyed_.with_key_field == nullptr) return keyed_.needs_key;
    // The request is in the same batch as the metadata, except for a stream whose requests
    // follow: no policy can name a field of those.
    return methods.QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE) &&
           LeavesKeyFieldEmpty(*keyed_.with_key_field, methods.GetSerializedSendMessage());
  }

  absl::Status PutKey(CallMetadata& metadata, bool needs_key) {
    auto attached = ResolveAttachedCall(method_, needs_key, metadata);
    if (!attached.ok()) return attached.status();
    parent_ = *std::move(attached);
    const std::string name(kKeyMetadata);
    if (needs_key && metadata.count(name) == 0) {
      metadata.emplace(name, Uuid::TimeOrdered(Clock::System().Now()).ToString());
    }
    return absl::OkStatus();
  }

  // A refused call: no message, and the reason as its status.
  void Answer(InterceptorBatchMethods& methods) const {
    if (methods.QueryInterceptionHookPoint(InterceptionHookPoints::PRE_RECV_MESSAGE)) {
      methods.FailHijackedRecvMessage();
    }
    if (methods.QueryInterceptionHookPoint(InterceptionHookPoints::PRE_RECV_STATUS)) {
      *methods.GetRecvStatus() = ToGrpcStatus(refusal_);
    }
  }

  void LookAtRetention(const std::multimap<grpc::string_ref, grpc::string_ref>& trailers) {
    const auto expires = trailers.find({kExpiresMetadata.data(), kExpiresMetadata.size()});
    if (expires == trailers.end()) return;
    retentions_.Look(method_, {expires->second.data(), expires->second.size()},
                     parent_->expires_at());
  }

  const std::string method_;
  const KeyedMethods::Answer keyed_;
  RetentionWatch& retentions_;
  absl::Status refusal_;
  // nullptr unless the call is attached.
  std::shared_ptr<ParentOperation> parent_;
};

class KeyInterceptorFactory final : public ClientInterceptorFactoryInterface {
 public:
  explicit KeyInterceptorFactory(LogSink log) : retentions_(ApplicationLog(std::move(log))) {}

  // gRPC takes ownership. nullptr for calls that get no key and are not attached.
  Interceptor* CreateClientInterceptor(ClientRpcInfo* info) override {
    const KeyedMethods::Answer keyed =
        keyed_methods_.Of(info->method(), info->type() == ClientRpcInfo::Type::UNARY);
    if (!keyed.needs_key && ParentTable::Instance().empty()) return nullptr;
    return std::make_unique<KeyInterceptor>(info->method(), keyed, retentions_).release();
  }

 private:
  KeyedMethods keyed_methods_{*google::protobuf::DescriptorPool::generated_pool()};
  RetentionWatch retentions_;
};

}  // namespace
}  // namespace internal

std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface> MakeClientInterceptor(
    LogSink log) {
  return std::make_unique<internal::KeyInterceptorFactory>(std::move(log));
}

}  // namespace idempotency
