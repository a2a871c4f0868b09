#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_GUARDED_SERVER_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_GUARDED_SERVER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/server_guard/server_guard.h"

namespace idempotency {

// A gRPC server together with its guard. It ends them in the one order that loses nothing:
// the guard refuses what waits for a verdict, the server waits for its handlers, the guard
// records their outcomes, and then both are destroyed.
//
//   grpc::ServerBuilder builder;
//   builder.AddListeningPort(address, credentials);
//   auto status = guard->Protect<payments::v1::Payments>(builder, &payments);
//   if (!status.ok()) return status;
//   auto server = GuardedServer::Start(builder, std::move(guard));
//   if (!server.ok()) return server.status();
//   ...
//   (*server)->Shutdown(absl::Seconds(30));
//
// The protected services outlive it. Thread-safe.
class GuardedServer {
 public:
  // Installs the guard with the application's interceptors (ServerGuard::Install()), and
  // starts the server. After Protect(); do not call Install() before. `guard` is not null.
  // `builder` refers to the guard: do not use it again, also after a failure.
  //   FAILED_PRECONDITION  Install() refused, with its message
  //   UNAVAILABLE          gRPC could not start the server: a port that is in use, or
  //                        credentials that cannot be read; gRPC's log has the reason
  static absl::StatusOr<std::unique_ptr<GuardedServer>> Start(
      grpc::ServerBuilder& builder, std::unique_ptr<ServerGuard> guard,
      ServerGuard::InterceptorFactories others = {});

  // Shutdown(absl::ZeroDuration()), and waits for outstanding recordings
  // (GuardOptions::closing_timeout).
  ~GuardedServer();
  GuardedServer(const GuardedServer&) = delete;
  GuardedServer& operator=(const GuardedServer&) = delete;

  grpc::Server& server() { return *server_; }
  ServerGuard& guard() { return *guard_; }

  // Returns when another thread has called Shutdown(), and the last handler has returned.
  void Wait() { server_->Wait(); }

  // Accepts no more calls, fails the calls that wait for a verdict with STORE_UNAVAILABLE,
  // and waits for the handlers, for `grace` at most (0 or less: not at all); then gRPC cancels
  // their calls, and their outcomes are still recorded. Returns when the last handler has returned.
  // gRPC breaks calls over an in-process channel at once, for any `grace`. Safe to call twice. Not
  // on a thread of gRPC's.
  void Shutdown(absl::Duration grace);

 private:
  explicit GuardedServer(std::unique_ptr<ServerGuard> guard) : guard_(std::move(guard)) {}

  // Outlives the server.
  const std::unique_ptr<ServerGuard> guard_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_GUARDED_SERVER_H_
