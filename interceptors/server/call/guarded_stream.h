#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_GUARDED_STREAM_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_GUARDED_STREAM_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <memory>

#include "google/protobuf/message_lite.h"

#include "grpc_idempotency/server_guard/method_policy.h"
#include "idempotency/v1/record.pb.h"
#include "interceptors/server/call/stream_writer.h"

namespace idempotency::internal {

// The replies of one guarded server-streaming call while they are sent: the part that is
// captured for the record, and the way to the client. Its messages arrive one after another;
// apart from that thread-compatible.
class GuardedStream {
 public:
  GuardedStream(const MethodPolicy& policy, std::shared_ptr<StreamWriter> writer);

  // Nothing is sent before the record is durable.
  bool holds_back() const { return holds_back_; }
  // The handler's writes send its messages directly: nothing is held back and nothing is
  // captured (any more). They fail once the client has disconnected, which ends handlers that
  // would run forever.
  bool lets_writes_through() const { return !holds_back_ && !captures_; }
  bool over_limit() const { return over_limit_; }
  // Too many messages to hold back: none is sent.
  bool drops_messages() const { return holds_back_ && over_limit_; }
  StreamWriter& writer() const { return *writer_; }

  // False if the next messages will not be captured: Capture does nothing with them.
  bool takes_messages() const { return !over_limit_ && !lets_writes_through(); }
  // Captures the bytes of a message that the handler wrote.
  void Capture(const google::protobuf::MessageLite& message);
  void Capture(const grpc::ByteBuffer& serialized);
  // Moves the captured messages into the reply that ended the stream; content STATUS_ONLY if
  // messages are missing.
  void MoveTo(v1::Reply& reply);

 private:
  // Counts a message of that size. True if its bytes are to be captured.
  bool Captures(std::size_t bytes);

  const bool holds_back_;
  const std::size_t limit_bytes_;
  const std::shared_ptr<StreamWriter> writer_;
  // The policy keeps messages, and they are under the limit.
  bool captures_;
  bool over_limit_ = false;
  std::size_t weight_bytes_ = 0;
  v1::Reply captured_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_GUARDED_STREAM_H_
