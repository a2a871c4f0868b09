#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_HELD_CALL_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_HELD_CALL_H_

#include <grpcpp/server_context.h>

#include <functional>
#include <memory>

#include "google/protobuf/message.h"

#include "idempotency/v1/record.pb.h"
#include "interceptors/server/call/stream_outlet.h"

namespace idempotency {

// A call with one request that has arrived and stands before its handler.
// Exactly one of
// Run and Answer is called, once, from any thread; the call must not be
// touched afterwards.
class HeldCall {
 public:
  virtual ~HeldCall() = default;

  virtual grpc::ServerContextBase& context() = 0;
  virtual const google::protobuf::Message& request() = 0;

  // Where the messages of a server-streaming call leave, to be made before Run;
  // nullptr for a unary one. Used while the handler runs and its reply is sent.
  virtual std::shared_ptr<StreamOutlet> MakeOutlet() = 0;

  // Lets the handler run. If the client is found to have left, `client_left`
  // is called instead, if there is one, and the call ends with CANCELLED.
  virtual void Run(std::function<void()> client_left) = 0;

  // Answers in the handler's place. Without initial metadata in `reply` and
  // with a code other than OK the answer is Trailers-Only.
  virtual void Answer(v1::Reply reply) = 0;
};

// Who decides about the calls of one method. Thread-safe.
class CallGate {
 public:
  virtual ~CallGate() = default;
  // Must not block, throw, or keep the call for ever.
  virtual void Admit(std::shared_ptr<HeldCall> call) = 0;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_HELD_CALL_H_
