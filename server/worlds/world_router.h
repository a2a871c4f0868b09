#ifndef IDEMPOTENCY_SERVER_WORLDS_WORLD_ROUTER_H_
#define IDEMPOTENCY_SERVER_WORLDS_WORLD_ROUTER_H_

#include <grpcpp/support/byte_buffer.h>

#include "server/rpc/idempotency_service.h"
#include "server/worlds/worlds.h"

namespace idempotency::internal {

// idempotency.v1.IdempotencyService of a server for tests: passes each call to the service of its
// world. Thread-safe.
class WorldRouter final : public IdempotencyServiceMethods {
 public:
  // `worlds` outlives the server that this is registered with.
  explicit WorldRouter(Worlds& worlds) : worlds_(worlds) {}

  grpc::ServerUnaryReactor* Reserve(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override {
    return Route(&IdempotencyService::Reserve, context, request, response);
  }
  grpc::ServerUnaryReactor* Complete(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override {
    return Route(&IdempotencyService::Complete, context, request, response);
  }
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override {
    return Route(&IdempotencyService::Release, context, request, response);
  }
  grpc::ServerUnaryReactor* Extend(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override {
    return Route(&IdempotencyService::Extend, context, request, response);
  }
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const grpc::ByteBuffer* request,
                                grpc::ByteBuffer* response) override {
    return Route(&IdempotencyService::Get, context, request, response);
  }
  // A session belongs to the world that its metadata names, to its end.
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Session(
      grpc::CallbackServerContext* context) override;

 private:
  using Method = grpc::ServerUnaryReactor* (IdempotencyService::*)(grpc::CallbackServerContext*,
                                                                   const grpc::ByteBuffer*,
                                                                   grpc::ByteBuffer*);

  grpc::ServerUnaryReactor* Route(Method method, grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request, grpc::ByteBuffer* response);

  Worlds& worlds_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_WORLDS_WORLD_ROUTER_H_
