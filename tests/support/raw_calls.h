// Calls of gRPC methods with any bytes for messages, as no stub sends them.
#ifndef IDEMPOTENCY_TESTS_SUPPORT_RAW_CALLS_H_
#define IDEMPOTENCY_TESTS_SUPPORT_RAW_CALLS_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

namespace idempotency::internal::testing {

inline grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

// Calls a unary method, "/payments.v1.Payments/Charge", and waits for its end. `response` is
// invalid without a message.
inline grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                            grpc::ClientContext& context, const std::string& method,
                            const grpc::ByteBuffer& request, grpc::ByteBuffer& response) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

// The same, without the context or the response.
inline grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                            const std::string& method, const std::string& request) {
  grpc::ClientContext context;
  grpc::ByteBuffer response;
  return CallRaw(channel, context, method, BufferOf(request), response);
}

// Calls a streaming method, sends `messages` as long as it takes them, and reads until its end.
inline grpc::Status StreamRaw(const std::shared_ptr<grpc::Channel>& channel,
                              grpc::ClientContext& context, const std::string& method,
                              const std::vector<std::string>& messages) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  const auto await = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto stream = stub.PrepareCall(&context, method, &queue);
  stream->StartCall(nullptr);
  bool sent = await();
  for (const std::string& message : messages) {
    if (!sent) break;
    stream->Write(BufferOf(message), nullptr);
    sent = await();
  }
  // The status follows every message that was sent.
  grpc::ByteBuffer received;
  do {
    stream->Read(&received, nullptr);
  } while (await());
  grpc::Status status;
  stream->Finish(&status, nullptr);
  await();
  return status;
}

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_RAW_CALLS_H_
