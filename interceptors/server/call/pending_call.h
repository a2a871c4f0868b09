#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_PENDING_CALL_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_PENDING_CALL_H_

#include <grpcpp/server_context.h>

#include <memory>
#include <optional>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "google/protobuf/message.h"

#include "idempotency/v1/record.pb.h"
#include "interceptors/server/call/stream_writer.h"
#include "interceptors/server/wire/sent_reply.h"

namespace idempotency::internal {

// The steps of gRPC's side between the decision to run a handler and its start. Both functions may
// be empty.
struct HandlerStart {
  // Called on the handler's thread, right before the handler: time has passed since the
  // decision. If it returns a reply, the handler does not run, and the reply is sent instead.
  absl::AnyInvocable<std::optional<v1::Reply>()> last_look;
  // The handler does not run, for this reason.
  absl::AnyInvocable<void(std::string_view reason)> not_run;
  // The handler does not run for a client that is known to have left.
  bool needs_client = false;
};

// A call with one request that has arrived and whose handler has not started. Exactly one of
// Run and Answer is called, once, from any thread; the call must not be used afterwards.
class PendingCall {
 public:
  virtual ~PendingCall() = default;

  // A call of the sync API: the thread that delivered it waits for its end.
  virtual bool sync() const = 0;

  virtual grpc::ServerContextBase& context() = 0;
  virtual const google::protobuf::Message& request() = 0;

  // The writer for the messages of a server-streaming call, made before Run; nullptr for a
  // unary one. Used while the handler runs and its reply is sent.
  virtual std::shared_ptr<StreamWriter> MakeStreamWriter() = 0;

  // Runs the handler, on a thread that it may block. If HandlerStart::needs_client and the client
  // has left, the call ends with CANCELLED instead, and if too many handlers wait for a thread,
  // with OVERLOADED. Of a callback call gRPC reports a cancellation only to a handler that runs:
  // its client has left once its deadline has passed.
  virtual void Run(HandlerStart start) = 0;

  // Answers instead of the handler. Without initial metadata in `reply` and with a code other
  // than OK the answer is Trailers-Only.
  virtual void Answer(SentReply reply) = 0;
};

// Decides about the calls of one method. Thread-safe.
class CallAdmitter {
 public:
  virtual ~CallAdmitter() = default;
  // Must not block, throw, or keep the call forever.
  virtual void Admit(std::shared_ptr<PendingCall> call) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_PENDING_CALL_H_
