#ifndef IDEMPOTENCY_IDEMPOTENCYD_QUEUED_EXTERNAL_PROCESSOR_H_
#define IDEMPOTENCY_IDEMPOTENCYD_QUEUED_EXTERNAL_PROCESSOR_H_

#include <grpcpp/server_builder.h>

#include "envoy/service/ext_proc/v3/external_processor.grpc.pb.h"

#include "interceptors/ext_proc/service/external_processor.h"
#include "server/rpc/queued_methods.h"
#include "server/rpc/raw_service.h"

namespace idempotency::internal {

// The service ExternalProcessor, for a server whose calls arrive on completion queues.
class QueuedExternalProcessor {
 public:
  // `processor` outlives the server that this is registered with, and so does this.
  explicit QueuedExternalProcessor(ExternalProcessor& processor) : processor_(processor) {}

  // The method is called once the server is started.
  void Register(grpc::ServerBuilder& builder, QueuedMethods& methods);

 private:
  ExternalProcessor& processor_;
  RawService rpc_{envoy::service::ext_proc::v3::ExternalProcessor::service_full_name()};
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_IDEMPOTENCYD_QUEUED_EXTERNAL_PROCESSOR_H_
