#include "grpc_idempotency/server_guard/guarded_server.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"

#include "grpc_idempotency/deadline.h"

namespace idempotency {

absl::StatusOr<std::unique_ptr<GuardedServer>> GuardedServer::Start(
    grpc::ServerBuilder& builder, std::unique_ptr<ServerGuard> guard,
    ServerGuard::InterceptorFactories others) {
  const absl::Status installed = guard->Install(builder, std::move(others));
  if (!installed.ok()) return installed;
  auto server = absl::WrapUnique(new GuardedServer(std::move(guard)));
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) {
    return absl::UnavailableError(
        "gRPC could not start the server: is its port in use, can its credentials be read?");
  }
  return server;
}

GuardedServer::~GuardedServer() {
  if (server_ == nullptr) return;
  Shutdown(absl::ZeroDuration());
  server_.reset();
}

void GuardedServer::Shutdown(absl::Duration grace) {
  guard_->Close();
  server_->Shutdown(GrpcDeadlineIn(grace));
}

}  // namespace idempotency
