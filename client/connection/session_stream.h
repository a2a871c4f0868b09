#ifndef IDEMPOTENCY_CLIENT_CONNECTION_SESSION_STREAM_H_
#define IDEMPOTENCY_CLIENT_CONNECTION_SESSION_STREAM_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <memory>
#include <string>

#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {

// One stream of IdempotencyService.Session over gRPC: it sends one frame at a
// time, receives one frame at a time, and ends. Tests replace it.
//
// Thread-safe within the rules of each method.
class SessionStream {
 public:
  // The receiver of events. Called without any lock, on gRPC's threads,
  // possibly several at once.
  class Events {
   public:
    // A frame was received. No further frame is read before Read(), and neither the end
    // of the stream nor of its frames is noticed before it, except by a failing write.
    virtual void OnFrame(SessionStream& stream, v1::SessionResponse frame) = 0;
    // The data of Write() or HalfClose() was sent, or (`ok` is false) can no
    // longer be sent.
    virtual void OnWritten(SessionStream& stream, bool ok) = 0;
    // No further frame will arrive. OnEnd follows Release().
    virtual void OnReadEnd(SessionStream& stream) = 0;
    // The last event, with how the call ended. It may destroy the stream.
    virtual void OnEnd(SessionStream& stream, const grpc::Status& status) = 0;

   protected:
    ~Events() = default;
  };

  virtual ~SessionStream() = default;

  // Call it first, once; reads the first frame. Every stream that was started
  // ends with OnEnd.
  virtual void Start() = 0;
  // Once for each OnFrame: from within it, or later. Before Release().
  virtual void Read() = 0;
  // `frame` is a serialised SessionRequest. Only one of these may be in
  // progress: until OnWritten.
  virtual void Write(std::string frame) = 0;
  // The last of the writes.
  virtual void HalfClose() = 0;
  // Hastens the end. May be called at any time.
  virtual void Cancel() = 0;
  // In OnEnd: false if there is no connection to any daemon, and was none for
  // this stream, so that nothing written to it was sent.
  virtual bool had_connection() const { return true; }
  // There will be no further Write or HalfClose, and none is under way.
  virtual void Release() = 0;
};

using SessionStreamFactory = std::function<std::shared_ptr<SessionStream>(SessionStream::Events&)>;

// Streams over `channel`.
SessionStreamFactory SessionStreamsOver(std::shared_ptr<grpc::Channel> channel);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_CONNECTION_SESSION_STREAM_H_
