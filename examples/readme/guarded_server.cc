// The README's way to guard a server, and the channel of docs/access.md, compiled so that they
// stay true.
#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "examples/payments/payments.grpc.pb.h"

// [access:channel]
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/client/channel_credentials.h"

// To a daemon on this machine without TLS: grpc::InsecureChannelCredentials().
absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelToIdempotencyd() {
  idempotency::IdempotencydCredentialFiles files;
  files.ca = "/etc/payments/ca.pem";
  files.certificate = "/etc/payments/client.pem";
  files.key = "/etc/payments/client.key";
  auto credentials = idempotency::IdempotencydChannelCredentials(files);
  if (!credentials.ok()) return credentials.status();
  return grpc::CreateCustomChannel("dns:///idempotencyd:7411", *credentials,
                                   idempotency::IdempotencydChannelArguments());
}
// [access:end]

// [readme:server]
#include "grpc_idempotency/server_guard/guarded_server.h"

// `idempotencyd` is a channel to the daemon. `payments` outlives the server.
absl::StatusOr<std::unique_ptr<idempotency::GuardedServer>> ServePayments(
    std::shared_ptr<grpc::Channel> idempotencyd, grpc::ServerBuilder& builder,
    grpc::Service* payments) {
  idempotency::GuardOptions options;
  options.name_space = "payments";
  options.scope = idempotency::MetadataScope("x-tenant");  // set by your authenticating proxy
  // After a crash the handler does not run again before its outcome is known.
  options.on_unknown_outcome = idempotency::MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  auto guard = idempotency::ServerGuard::Create(std::move(idempotencyd), options);
  if (!guard.ok()) return guard.status();
  auto status = (*guard)->Protect<payments::v1::Payments>(builder, payments);
  if (!status.ok()) return status;
  return idempotency::GuardedServer::Start(builder, *std::move(guard));
}
// [readme:end]

// [readme:rollout]
// Clients send no keys yet: Charge is guarded where its call has a key. Refund is not guarded.
void GuardChargeAlone(idempotency::GuardOptions& options) {
  using Key = idempotency::MethodPolicy::Key;
  options.methods["/payments.v1.Payments/Charge"].adjust = [](idempotency::MethodPolicy& policy) {
    policy.key = Key::kOptional;
  };
  options.methods["/payments.v1.Payments/Refund"].adjust = [](idempotency::MethodPolicy& policy) {
    policy.key = Key::kNone;
  };
}
// [readme:end]
