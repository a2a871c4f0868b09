#ifndef IDEMPOTENCY_SERVER_RPC_QUEUED_METHODS_H_
#define IDEMPOTENCY_SERVER_RPC_QUEUED_METHODS_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <string>
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
  // A call, as bytes in both directions.
  using Stream = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;
  // Requests one call of the method, whose arrival is the event `tag` on the queue: with its
  // headers, before its first message (server/rpc/raw_service.h). All of them are of that call
  // alone.
  using Request = std::function<void(grpc::GenericServerContext*, Stream*,
                                     grpc::ServerCompletionQueue*, void* tag)>;

  // `begin` returns the reactor of a call: of one that is not a bidirectional stream, when its
  // request has arrived.
  struct Unary {
    Request request;
    std::function<grpc::ServerUnaryReactor*(grpc::ServerContextBase*, grpc::ByteBuffer* request,
                                            grpc::ByteBuffer* response)>
        begin;
  };
  // A method that answers with a stream.
  struct ServerStream {
    Request request;
    std::function<grpc::ServerWriteReactor<grpc::ByteBuffer>*(grpc::ServerContextBase*,
                                                              grpc::ByteBuffer* request)>
        begin;
  };
  struct BidiStream {
    Request request;
    std::function<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*(
        grpc::ServerContextBase*)>
        begin;
  };

  // By its full name.
  void AddService(std::string name) { services_.push_back(std::move(name)); }

  void Add(Unary method) { unary_.push_back(std::move(method)); }
  void Add(ServerStream method) { server_streams_.push_back(std::move(method)); }
  void Add(BidiStream method) { bidi_streams_.push_back(std::move(method)); }

  const std::vector<std::string>& services() const { return services_; }
  const std::vector<Unary>& unary() const { return unary_; }
  const std::vector<ServerStream>& server_streams() const { return server_streams_; }
  const std::vector<BidiStream>& bidi_streams() const { return bidi_streams_; }

 private:
  std::vector<std::string> services_;
  std::vector<Unary> unary_;
  std::vector<ServerStream> server_streams_;
  std::vector<BidiStream> bidi_streams_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_QUEUED_METHODS_H_
