// docs/embedded.md's way to guard a server without a second process, compiled so
// that it stays true.
#include <grpcpp/grpcpp.h>

#include <iostream>
#include <memory>

#include "examples/payments/payments.grpc.pb.h"

// [embedded:serve]
#include "grpc_idempotency/embedded/embedded_service.h"
#include "grpc_idempotency/server_guard/server_guard.h"

// Serves until `wait_for_stop` returns.
absl::Status Serve(grpc::Service* payments, void (*wait_for_stop)()) {
  auto service = idempotency::EmbeddedService::Open("sqlite:/var/lib/payments/idempotency.db");
  if (!service.ok()) return service.status();

  idempotency::GuardOptions options;
  options.name_space = "payments";
  options.scope = idempotency::MetadataScope("x-tenant");  // set by your authenticating proxy
  // A crash or an unclear failure: nothing runs again before its outcome is known.
  options.on_unknown_outcome = idempotency::MethodPolicy::OnLeaseExpiry::kRequireRecovery;
  auto guard = idempotency::ServerGuard::Create((*service)->channel(), options);
  if (!guard.ok()) return guard.status();

  grpc::ServerBuilder builder;
  builder.AddListeningPort("0.0.0.0:50051", grpc::InsecureServerCredentials());
  auto status = (*guard)->Protect<payments::v1::Payments>(builder, payments);
  if (status.ok()) status = (*guard)->Install(builder);
  if (!status.ok()) return status;
  auto server = builder.BuildAndStart();
  if (server == nullptr) return absl::UnavailableError("cannot listen on port 50051");

  wait_for_stop();
  (*guard)->Close();  // 1. nobody waits for a verdict any more
  server->Shutdown();
  server.reset();           // 2. handlers have ended
  guard->reset();           // 3. their replies are recorded
  return absl::OkStatus();  // 4. the service ends last
}
// [embedded:end]
