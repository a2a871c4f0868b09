#ifndef IDEMPOTENCY_SERVER_RPC_UNSERVED_METHODS_H_
#define IDEMPOTENCY_SERVER_RPC_UNSERVED_METHODS_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_builder.h>

#include "server/rpc/queued_methods.h"

namespace idempotency::internal {

// Answers the calls of methods that no service has with UNIMPLEMENTED. They arrive as all others
// do, and are counted with them: gRPC's own answer waits inside gRPC for a caller that does not
// read, and so does its call.
//
// Outlives the server that it is registered with.
class UnservedMethods {
 public:
  UnservedMethods() = default;
  ~UnservedMethods() = default;
  UnservedMethods(const UnservedMethods&) = delete;
  UnservedMethods& operator=(const UnservedMethods&) = delete;

  // Once, for a server with completion queues.
  void Register(grpc::ServerBuilder& builder, QueuedMethods& methods);

 private:
  grpc::AsyncGenericService rpc_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_UNSERVED_METHODS_H_
