#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_STREAM_WRITER_FACTORY_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_STREAM_WRITER_FACTORY_H_

#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"

#include "interceptors/server/call/call_table.h"
#include "interceptors/server/call/stream_writer_interceptor.h"

namespace idempotency::internal {

// Creates the writer interceptor for calls of guarded streams, after InterceptorFactory has
// entered them in the call table. Thread-safe.
class StreamWriterFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit StreamWriterFactory(absl::flat_hash_set<std::string> paths) : paths_(std::move(paths)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    if (!paths_.contains(info->method())) return nullptr;
    // gRPC takes ownership.
    return std::make_unique<StreamWriterInterceptor>(
               CallTable::Instance().Find(info->server_context()))
        .release();
  }

 private:
  const absl::flat_hash_set<std::string> paths_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_STREAM_WRITER_FACTORY_H_
