// The README's way to guard a server, compiled so that it stays true.
#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "examples/payments/payments.grpc.pb.h"

// [readme:server]
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/client/channel_credentials.h"
#include "grpc_idempotency/server_guard/guarded_server.h"

// `payments` outlives the server.
absl::StatusOr<std::unique_ptr<idempotency::GuardedServer>> ServePayments(
    grpc::ServerBuilder& builder, grpc::Service* payments) {
  idempotency::GuardOptions options;
  options.name_space = "payments";
  options.scope = idempotency::MetadataScope("x-tenant");  // set by your authenticating proxy
  // After a crash the handler does not run again before its outcome is known.
  options.on_unknown_outcome = idempotency::MethodPolicy::OnLeaseExpiry::kRequireRecovery;
  // To a daemon on this machine without TLS: grpc::InsecureChannelCredentials().
  idempotency::IdempotencydCredentialFiles files;
  files.ca = "/etc/payments/ca.crt";
  files.certificate = "/etc/payments/client.crt";
  files.key = "/etc/payments/client.key";
  auto credentials = idempotency::IdempotencydChannelCredentials(files);
  if (!credentials.ok()) return credentials.status();
  auto channel = grpc::CreateCustomChannel("dns:///idempotencyd:7411", *credentials,
                                           idempotency::IdempotencydChannelArguments());
  auto guard = idempotency::ServerGuard::Create(channel, options);
  if (!guard.ok()) return guard.status();

  auto status = (*guard)->Protect<payments::v1::Payments>(builder, payments);
  if (!status.ok()) return status;
  // Your own interceptors are the third argument. At the end: server->Shutdown(grace).
  return idempotency::GuardedServer::Start(builder, *std::move(guard));
}
// [readme:end]
