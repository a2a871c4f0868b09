#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_STREAM_WRITER_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_STREAM_WRITER_H_

#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <optional>

namespace idempotency::internal {

// Where the messages of a guarded stream leave for the client, one after
// another. They are taken out of the handler's own writes, so that those
// neither send what is pending back nor fail because the client has left.
//
// Closed at first: messages gather. Thread-safe. Callbacks run on any thread,
// possibly inside the call, and may be the last that happens to the RPC.
class StreamWriter {
 public:
  // False if a message could not be sent.
  using Drained = std::function<void(bool all_sent)>;

  virtual ~StreamWriter() = default;

  // True if messages leave inside Put, Open and Drain, which wait for it: with
  // gRPC's sync API they must be called by a thread that may.
  virtual bool blocks() const = 0;

  // Adds a message, or, without one, a mark. `passed`, if there is one, is
  // called once it and everything before it has left or never will.
  virtual void Put(std::optional<grpc::ByteBuffer> message, std::function<void()> passed) = 0;
  // Messages leave from now on. The call's initial metadata must be on its way.
  virtual void Open() = 0;
  // Drops what gathered and what is still to come.
  virtual void Discard() = 0;
  // Open(); `drained` is called once nothing is left.
  virtual void Drain(Drained drained) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_STREAM_WRITER_H_
