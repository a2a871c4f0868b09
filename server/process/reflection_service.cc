#include "server/process/reflection_service.h"

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace idempotency::internal {
namespace {

using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

}  // namespace

// Answers one request after the other. Deletes itself when gRPC is done with it.
class ReflectionService::InfoCall final
    : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit InfoCall(ReflectedFiles& files) : files_(files) { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    ServerReflectionRequest request;
    if (request_.Length() > kMaxRequestBytes ||
        !grpc::SerializationTraits<ServerReflectionRequest>::Deserialize(&request_, &request)
             .ok()) {
      return Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                 "the request is no ServerReflectionRequest, or too long"));
    }
    bool own_buffer = false;
    // gRPC writes into an empty buffer only.
    response_.Clear();
    grpc::SerializationTraits<ServerReflectionResponse>::Serialize(files_.Answer(request),
                                                                   &response_, &own_buffer);
    StartWrite(&response_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the caller has gone"));
    StartRead(&request_);
  }
  void OnDone() override { std::unique_ptr<InfoCall>(this).reset(); }

 private:
  ReflectedFiles& files_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
};

void ReflectionService::Register(grpc::ServerBuilder& builder, std::vector<std::string> services,
                                 QueuedMethods& methods) {
  for (RawService* const rpc : {&rpc_, &alpha_rpc_}) {
    rpc->Register(builder, methods);
    services.push_back(rpc->name());
    methods.Add(QueuedMethods::BidiStream{rpc->Add("ServerReflectionInfo"),
                                          [this](grpc::ServerContextBase* /*context*/) {
                                            // It deletes itself in OnDone.
                                            return std::make_unique<InfoCall>(*files_).release();
                                          }});
  }
  std::sort(services.begin(), services.end());
  files_.emplace(std::move(services));
}

}  // namespace idempotency::internal
