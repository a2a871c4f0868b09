#include "server/rpc/unserved_methods.h"

#include <memory>

namespace idempotency::internal {
namespace {

// Deletes itself when gRPC is done with it.
class UnservedCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  UnservedCall() {
    Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "the server has no such method"));
  }
  void OnDone() override { std::unique_ptr<UnservedCall>(this).reset(); }
};

}  // namespace

void UnservedMethods::Register(grpc::ServerBuilder& builder, QueuedMethods& methods) {
  builder.RegisterAsyncGenericService(&rpc_);
  methods.Add(QueuedMethods::BidiStream{
      [this](grpc::GenericServerContext* context, QueuedMethods::Stream* stream,
             grpc::ServerCompletionQueue* queue,
             void* tag) { rpc_.RequestCall(context, stream, queue, queue, tag); },
      [](grpc::ServerContextBase* /*context*/) {
        // It deletes itself in OnDone.
        return std::make_unique<UnservedCall>().release();
      }});
}

}  // namespace idempotency::internal
