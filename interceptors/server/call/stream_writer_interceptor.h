#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_STREAM_WRITER_INTERCEPTOR_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_STREAM_WRITER_INTERCEPTOR_H_

#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <utility>

#include "interceptors/server/call/guarded_call.h"

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

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_STREAM_WRITER_INTERCEPTOR_H_
