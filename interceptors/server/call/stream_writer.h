#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_STREAM_WRITER_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_STREAM_WRITER_H_

#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <optional>

namespace idempotency::internal {

// Sends the messages of a guarded stream to the client, one after another. They are taken out
// of the handler's own writes, so that those writes neither send held-back messages nor fail
// because the client has disconnected.
//
// Closed at first: messages accumulate. Thread-safe. Callbacks run on any thread, possibly
// inside the call, and may be the RPC's last action.
class StreamWriter {
 public:
  // False if a message could not be sent.
  using Drained = std::function<void(bool all_sent)>;

  virtual ~StreamWriter() = default;

  // True if Put, Open and Drain send messages themselves and wait for it: with gRPC's sync API
  // only a thread that may wait calls them.
  virtual bool blocks() const = 0;

  // Adds a message or, without one, a mark. `passed`, if not empty, is called once it and
  // everything before it are sent or never will be.
  virtual void Put(std::optional<grpc::ByteBuffer> message, std::function<void()> passed) = 0;
  // Sends messages from now on. The call's initial metadata must be sent before.
  virtual void Open() = 0;
  // Drops the accumulated messages and all later ones.
  virtual void Discard() = 0;
  // Open(); `drained` is called once nothing is left.
  virtual void Drain(Drained drained) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_STREAM_WRITER_H_
