#ifndef IDEMPOTENCY_SERVER_RPC_RAW_SERVICE_H_
#define IDEMPOTENCY_SERVER_RPC_RAW_SERVICE_H_

#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_builder.h>

#include <deque>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

#include "server/rpc/queued_methods.h"

namespace idempotency::internal {

// A service on completion queues each of whose calls arrives with its headers, as a stream of bytes
// in both directions, whatever the kind of the method: on the wire all kinds are the same. gRPC's
// generated services deliver a unary call with its message. Calls without one then stay inside
// gRPC, where nothing bounds them.
//
// Outlives the server that it is registered with.
class RawService final : public grpc::Service {
 public:
  // By its full name, such as "idempotency.v1.IdempotencyService".
  explicit RawService(std::string name) : name_(std::move(name)) {}
  ~RawService() override = default;

  const std::string& name() const { return name_; }

  // With a server that is being built, and among the services of `methods`.
  void Register(grpc::ServerBuilder& builder, QueuedMethods& methods);

  // Adds a method, by its name, such as "Reserve", before the server is started.
  QueuedMethods::Request Add(absl::string_view method);

 private:
  void RequestCall(int method, grpc::GenericServerContext* context, QueuedMethods::Stream* stream,
                   grpc::ServerCompletionQueue* queue, void* tag);

  const std::string name_;
  // "/SERVICE/METHOD", which gRPC does not copy.
  std::deque<std::string> paths_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_RAW_SERVICE_H_
