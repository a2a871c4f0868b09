// docs/embedded.md's way to guard a server without a second process, compiled so
// that it stays true.
#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "examples/payments/payments.grpc.pb.h"

// [embedded:serve]
#include "grpc_idempotency/embedded/embedded_service.h"
#include "grpc_idempotency/server_guard/guarded_server.h"

// Serves until `wait_for_stop` returns.
absl::Status Serve(grpc::Service* payments, void (*wait_for_stop)()) {
  auto service = idempotency::EmbeddedService::Open("sqlite:/var/lib/payments/idempotency.db");
  if (!service.ok()) return service.status();

  idempotency::GuardOptions options;
  options.name_space = "payments";
  options.scope = idempotency::MetadataScope("x-tenant");  // set by your authenticating proxy
  // After a crash or an unclear failure nothing runs again before the outcome is known.
  options.on_unknown_outcome = idempotency::MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  auto guard = idempotency::ServerGuard::Create((*service)->MakeConnection(), options);
  if (!guard.ok()) return guard.status();

  grpc::ServerBuilder builder;
  builder.AddListeningPort("0.0.0.0:50051", grpc::InsecureServerCredentials());
  auto status = (*guard)->Protect<payments::v1::Payments>(builder, payments);
  if (!status.ok()) return status;
  auto server = idempotency::GuardedServer::Start(builder, *std::move(guard));
  if (!server.ok()) return server.status();

  wait_for_stop();
  (*server)->Shutdown(absl::Seconds(30));
  return absl::OkStatus();  // the server ends first, then its guard, and the service last
}
// [embedded:end]
