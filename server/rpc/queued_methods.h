#ifndef IDEMPOTENCY_SERVER_RPC_QUEUED_METHODS_H_
#define IDEMPOTENCY_SERVER_RPC_QUEUED_METHODS_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <utility>
#include <vector>

namespace idempotency::internal {

// Methods whose calls arrive on completion queues, and not on the threads of gRPC's callback API:
// a second polling thread in a process costs several switches of threads for each message
// (docs/adr/0048-fewer-hand-overs.md). Their handlers are reactors of the callback API all the
// same, under its rules (server/rpc/queued_calls.h): a service has one handler for both.
//
// Not thread-safe.
class QueuedMethods {
 public:
  // `request` requests one call of the method, whose arrival is the event `tag` on the queue.
  // `begin` returns the reactor of a call that has arrived. `request` and the message that it
  // points to are of that call alone.
  struct Unary {
    using Responder = grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>;
    std::function<void(grpc::ServerContext*, grpc::ByteBuffer*, Responder*,
                       grpc::ServerCompletionQueue*, void* tag)>
        request;
    std::function<grpc::ServerUnaryReactor*(grpc::ServerContextBase*, grpc::ByteBuffer* request,
                                            grpc::ByteBuffer* response)>
        begin;
  };
  // Of a method that answers with a stream.
  struct ServerStream {
    using Responder = grpc::ServerAsyncWriter<grpc::ByteBuffer>;
    std::function<void(grpc::ServerContext*, grpc::ByteBuffer*, Responder*,
                       grpc::ServerCompletionQueue*, void* tag)>
        request;
    std::function<grpc::ServerWriteReactor<grpc::ByteBuffer>*(grpc::ServerContextBase*,
                                                              grpc::ByteBuffer* request)>
        begin;
  };
  struct BidiStream {
    using Responder = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;
    std::function<void(grpc::ServerContext*, Responder*, grpc::ServerCompletionQueue*, void* tag)>
        request;
    std::function<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*(
        grpc::ServerContextBase*)>
        begin;
  };

  // `request` is a generated method of `service`, which outlives the server.
  template <typename Service, typename Declaring, typename Begin>
  void Add(Service& service,
           void (Declaring::*request)(grpc::ServerContext*, grpc::ByteBuffer*, Unary::Responder*,
                                      grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*),
           Begin begin) {
    unary_.push_back({Requesting<Unary::Responder>(service, request), std::move(begin)});
  }
  template <typename Service, typename Declaring, typename Begin>
  void Add(Service& service,
           void (Declaring::*request)(grpc::ServerContext*, grpc::ByteBuffer*,
                                      ServerStream::Responder*, grpc::CompletionQueue*,
                                      grpc::ServerCompletionQueue*, void*),
           Begin begin) {
    server_streams_.push_back(
        {Requesting<ServerStream::Responder>(service, request), std::move(begin)});
  }
  template <typename Service, typename Declaring, typename Begin>
  void Add(Service& service,
           void (Declaring::*request)(grpc::ServerContext*, BidiStream::Responder*,
                                      grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*),
           Begin begin) {
    bidi_streams_.push_back(
        {[&service, request](grpc::ServerContext* context, BidiStream::Responder* responder,
                             grpc::ServerCompletionQueue* queue, void* tag) {
           (service.*request)(context, responder, queue, queue, tag);
         },
         std::move(begin)});
  }

  const std::vector<Unary>& unary() const { return unary_; }
  const std::vector<ServerStream>& server_streams() const { return server_streams_; }
  const std::vector<BidiStream>& bidi_streams() const { return bidi_streams_; }

 private:
  template <typename Responder, typename Service, typename Method>
  static auto Requesting(Service& service, Method request) {
    return
        [&service, request](grpc::ServerContext* context, grpc::ByteBuffer* message,
                            Responder* responder, grpc::ServerCompletionQueue* queue, void* tag) {
          (service.*request)(context, message, responder, queue, queue, tag);
        };
  }

  std::vector<Unary> unary_;
  std::vector<ServerStream> server_streams_;
  std::vector<BidiStream> bidi_streams_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_QUEUED_METHODS_H_
