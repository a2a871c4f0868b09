#include "server/worlds/world_router.h"

#include <memory>

#include "grpc_idempotency/grpc_status.h"

namespace idempotency::internal {
namespace {

// A stream that ends with a status.
class RefusedSession final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit RefusedSession(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }  // NOLINT(cppcoreguidelines-owning-memory)
};

}  // namespace

grpc::ServerUnaryReactor* WorldRouter::Route(Method method, grpc::CallbackServerContext* context,
                                             const grpc::ByteBuffer* request,
                                             grpc::ByteBuffer* response) {
  const absl::StatusOr<World*> world = worlds_.Of(*context);
  if (world.ok()) return ((*world)->service().*method)(context, request, response);
  grpc::ServerUnaryReactor* const refused = context->DefaultReactor();
  refused->Finish(ToGrpcStatus(world.status()));
  return refused;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* WorldRouter::Session(
    grpc::CallbackServerContext* context) {
  const absl::StatusOr<World*> world = worlds_.Of(*context);
  if (world.ok()) return (*world)->service().Session(context);
  // It deletes itself in OnDone.
  return std::make_unique<RefusedSession>(ToGrpcStatus(world.status())).release();
}

}  // namespace idempotency::internal
