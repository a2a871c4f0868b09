#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_STREAM_WRITER_INTERCEPTOR_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_STREAM_WRITER_INTERCEPTOR_H_

#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"

#include "interceptors/server/call/guarded_call.h"
#include "interceptors/server/call/guarded_call_table.h"

namespace idempotency::internal {

// Takes the messages of a guarded stream out of the handler's writes and passes them to the
// writer. The last interceptor: the application's interceptors have seen each message with its
// type, and their changes are sent.
class StreamWriterInterceptor final : public grpc::experimental::Interceptor {
 public:
  // `call` may be nullptr.
  explicit StreamWriterInterceptor(std::shared_ptr<GuardedCall> call) : call_(std::move(call)) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override;

 private:
  const std::shared_ptr<GuardedCall> call_;
};

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
               GuardedCallTable::Instance().Find(info->server_context()))
        .release();
  }

 private:
  const absl::flat_hash_set<std::string> paths_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_STREAM_WRITER_INTERCEPTOR_H_
