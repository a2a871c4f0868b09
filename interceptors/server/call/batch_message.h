#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_BATCH_MESSAGE_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_BATCH_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/interceptor.h>

#include <string>

namespace idempotency::internal {

// A serialised message, which is not compressed.
std::string BytesOf(const grpc::ByteBuffer& buffer);

// Removes the message of a batch that sends one, serialised or not.
void DropMessage(grpc::experimental::InterceptorBatchMethods& batch);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_BATCH_MESSAGE_H_
