#include "server/rpc/raw_service.h"

#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/impl/rpc_service_method.h>

#include <memory>

#include "absl/strings/str_cat.h"

namespace idempotency::internal {

void RawService::Register(grpc::ServerBuilder& builder, QueuedMethods& methods) {
  builder.RegisterService(this);
  methods.AddService(name_);
}

QueuedMethods::Request RawService::Add(absl::string_view method) {
  const auto index = static_cast<int>(paths_.size());
  paths_.push_back(absl::StrCat("/", name_, "/", method));
  // The base class takes it over.
  AddMethod(std::make_unique<grpc::internal::RpcServiceMethod>(
                paths_.back().c_str(), grpc::internal::RpcMethod::BIDI_STREAMING, nullptr)
                .release());
  MarkMethodRaw(index);
  return [this, index](grpc::GenericServerContext* context, QueuedMethods::Stream* stream,
                       grpc::ServerCompletionQueue* queue,
                       void* tag) { RequestCall(index, context, stream, queue, tag); };
}

void RawService::RequestCall(int method, grpc::GenericServerContext* context,
                             QueuedMethods::Stream* stream, grpc::ServerCompletionQueue* queue,
                             void* tag) {
  RequestAsyncBidiStreaming(method, context, stream, queue, queue, tag);
}

}  // namespace idempotency::internal
