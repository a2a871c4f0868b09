#ifndef IDEMPOTENCY_SERVER_RPC_IDEMPOTENCY_SERVICE_H_
#define IDEMPOTENCY_SERVER_RPC_IDEMPOTENCY_SERVICE_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <functional>

#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "server/access/access_control.h"
#include "server/observability/observer.h"
#include "server/operation/operations.h"
#include "server/queue/batcher.h"
#include "server/queue/in_flight_waiters.h"
#include "server/rpc/session_call.h"
#include "server/rpc/session_registry.h"
#include "server/rpc/unread_answer_limits.h"

namespace idempotency::internal {

struct IdempotencyServiceOptions : OperationsOptions {
  SessionOptions session;
  // Called once: UnreadAnswerLimits.
  std::function<void()> first_call;
  // Outlives the service. nullptr: everything is permitted.
  const AccessControl* access = nullptr;
  // The memory limit of a unary call's parsed request: that of a frame.
  std::size_t max_request_parsed_bytes = SessionOptions().max_frame_parsed_bytes;
};

// The methods as gRPC calls them. All are raw: a request is measured here before
// it is parsed, and an answer's bytes are made on the thread that has the answer.
using IdempotencyServiceMethods = v1::IdempotencyService::WithRawCallbackMethod_Reserve<
    v1::IdempotencyService::WithRawCallbackMethod_Complete<
        v1::IdempotencyService::WithRawCallbackMethod_Release<
            v1::IdempotencyService::WithRawCallbackMethod_Extend<
                v1::IdempotencyService::WithRawCallbackMethod_Get<
                    v1::IdempotencyService::WithRawCallbackMethod_Session<
                        v1::IdempotencyService::Service>>>>>>;

// The gRPC service idempotency.v1.IdempotencyService: checks every field,
// translates, and answers when the batcher or the in-flight waiters do. Holds
// no thread while it waits. Thread-safe.
class IdempotencyService final : public IdempotencyServiceMethods {
 public:
  // All of them must outlive the server that this is registered with.
  IdempotencyService(Batcher& batcher, InFlightWaiters& waiters, Observer& observer,
                     const IdempotencyServiceOptions& options = {});

  // Notifies every session, present and future, that the server is about to end:
  // their callers half-close when they have their answers. Before grpc::Server's
  // Shutdown(), which waits for them. May be called again.
  void DrainSessions() { sessions_.Drain(); }

  // Ends the sessions and unary calls whose callers have not read for too long, and announces to
  // callers whose credentials end soon that they must open another session. For a thread that calls
  // it regularly.
  void CheckCalls() {
    if (access_ != nullptr) sessions_.AnnounceRenewals();
    unread_answers_.EndStalled(operations_.clock().Monotonic());
  }

  UnreadAnswerLimits& unread_answers() { return unread_answers_; }

  Operations& operations() { return operations_; }

  grpc::ServerUnaryReactor* Reserve(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Complete(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Extend(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const grpc::ByteBuffer* request,
                                grpc::ByteBuffer* response) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Session(
      grpc::CallbackServerContext* context) override;

  // The same methods under either API. `request` and `response` are of that call alone.
  grpc::ServerUnaryReactor* BeginCall(OperationKind kind, grpc::ServerContextBase* context,
                                      grpc::ByteBuffer* request, grpc::ByteBuffer* response);
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* BeginSession(
      grpc::ServerContextBase* context);

 private:
  template <typename Request>
  grpc::ServerUnaryReactor* Begin(grpc::ServerContextBase* context, grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response);

  Operations operations_;
  SessionRegistry sessions_;
  UnreadAnswerLimits unread_answers_;
  const SessionOptions session_options_;
  const AccessControl* const access_;
  const std::size_t max_request_parsed_bytes_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_IDEMPOTENCY_SERVICE_H_
