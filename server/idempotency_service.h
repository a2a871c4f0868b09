#ifndef IDEMPOTENCY_SERVER_IDEMPOTENCY_SERVICE_H_
#define IDEMPOTENCY_SERVER_IDEMPOTENCY_SERVICE_H_

#include <grpcpp/support/byte_buffer.h>

#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "server/batcher.h"
#include "server/observer.h"
#include "server/operations.h"
#include "server/session_registry.h"
#include "server/session_stream.h"
#include "server/wait_room.h"

namespace idempotency {

struct IdempotencyServiceOptions : OperationsOptions {
  SessionOptions session;
};

// The methods as gRPC calls them. Session is raw: its frames are parsed and put
// together here, with an answer's bytes made on the thread that has the answer.
using IdempotencyServiceMethods = v1::IdempotencyService::WithCallbackMethod_Reserve<
    v1::IdempotencyService::WithCallbackMethod_Complete<
        v1::IdempotencyService::WithCallbackMethod_Release<
            v1::IdempotencyService::WithCallbackMethod_Extend<
                v1::IdempotencyService::WithCallbackMethod_Get<
                    v1::IdempotencyService::WithRawCallbackMethod_Session<
                        v1::IdempotencyService::Service>>>>>>;

// The gRPC service idempotency.v1.IdempotencyService: checks every field,
// translates, and answers when the batcher or the wait room does. Holds no
// thread while it waits. Thread-safe.
class IdempotencyService final : public IdempotencyServiceMethods {
 public:
  // All of them must outlive the server that this is registered with.
  IdempotencyService(Batcher& batcher, WaitRoom& wait_room, Observer& observer,
                     const IdempotencyServiceOptions& options = {});

  // Tells every session, open or to come, that the server is about to end: their
  // callers half-close when they have their answers. Before grpc::Server's
  // Shutdown(), which waits for them. May be called again.
  void DrainSessions() { sessions_.Drain(); }

  grpc::ServerUnaryReactor* Reserve(grpc::CallbackServerContext* context,
                                    const v1::ReserveRequest* request,
                                    v1::ReserveResponse* response) override;
  grpc::ServerUnaryReactor* Complete(grpc::CallbackServerContext* context,
                                     const v1::CompleteRequest* request,
                                     v1::CompleteResponse* response) override;
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const v1::ReleaseRequest* request,
                                    v1::ReleaseResponse* response) override;
  grpc::ServerUnaryReactor* Extend(grpc::CallbackServerContext* context,
                                   const v1::ExtendRequest* request,
                                   v1::ExtendResponse* response) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context, const v1::GetRequest* request,
                                v1::GetResponse* response) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Session(
      grpc::CallbackServerContext* context) override;

 private:
  Operations operations_;
  SessionRegistry sessions_;
  const SessionOptions session_options_;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_IDEMPOTENCY_SERVICE_H_
