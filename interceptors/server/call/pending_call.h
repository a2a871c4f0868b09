#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_PENDING_CALL_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_PENDING_CALL_H_

#include <grpcpp/server_context.h>

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "google/protobuf/message.h"

#include "idempotency/v1/record.pb.h"
#include "interceptors/server/call/stream_writer.h"

namespace idempotency::internal {

// What becomes of a decision that a handler runs, until it does. Both may be
// empty.
struct HandlerStart {
  // Called on the thread that is to run the handler, right before it: time has
  // passed since the decision. With a reply the handler does not run, and the
  // reply is sent in its place.
  std::function<std::optional<v1::Reply>()> last_look;
  // The handler does not run, for this reason. Empty: the client is not looked
  // for.
  std::function<void(std::string_view reason)> not_run;
};

// A call with one request that has arrived and stands before its handler.
// Exactly one of
// Run and Answer is called, once, from any thread; the call must not be
// touched afterwards.
class PendingCall {
 public:
  virtual ~PendingCall() = default;

  virtual grpc::ServerContextBase& context() = 0;
  virtual const google::protobuf::Message& request() = 0;

  // Where the messages of a server-streaming call leave, to be made before Run;
  // nullptr for a unary one. Used while the handler runs and its reply is sent.
  virtual std::shared_ptr<StreamWriter> MakeStreamWriter() = 0;

  // Lets the handler run, on a thread that it may block. If the client is found
  // to have left the call ends with CANCELLED instead, and if too many handlers
  // wait for a thread with OVERLOADED.
  virtual void Run(HandlerStart start) = 0;

  // Answers in the handler's place. Without initial metadata in `reply` and
  // with a code other than OK the answer is Trailers-Only.
  virtual void Answer(v1::Reply reply) = 0;
};

// Who decides about the calls of one method. Thread-safe.
class CallAdmitter {
 public:
  virtual ~CallAdmitter() = default;
  // Must not block, throw, or keep the call for ever.
  virtual void Admit(std::shared_ptr<PendingCall> call) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_PENDING_CALL_H_
