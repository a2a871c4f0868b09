#include "idempotencyd/queued_external_processor.h"

namespace idempotency::internal {

void QueuedExternalProcessor::Register(grpc::ServerBuilder& builder, QueuedMethods& methods) {
  rpc_.Register(builder, methods);
  methods.Add(QueuedMethods::BidiStream{
      rpc_.Add("Process"),
      [this](const grpc::ServerContextBase* context) { return processor_.BeginStream(*context); }});
}

}  // namespace idempotency::internal
