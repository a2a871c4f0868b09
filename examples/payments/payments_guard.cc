#include "examples/payments/payments_guard.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <spdlog/spdlog.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

#include "examples/payments/payments.grpc.pb.h"
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/client/channel_credentials.h"
#include "grpc_idempotency/error_reflection.h"
#include "grpc_idempotency/limits.h"

ABSL_FLAG(std::string, idempotencyd, "127.0.0.1:7411", "Address of idempotencyd.");
ABSL_FLAG(std::string, idempotencyd_ca, "",
          "PEM file of the authorities of idempotencyd's certificate. With it calls use TLS.");
ABSL_FLAG(std::string, idempotencyd_cert, "", "PEM file of this service's own certificate.");
ABSL_FLAG(std::string, idempotencyd_key, "", "PEM file of that certificate's private key.");
ABSL_FLAG(absl::Duration, lease, idempotency::limits::kDefaultLease,
          "How long a crashed attempt keeps its key.");
ABSL_FLAG(
    std::size_t, replay_cache_bytes, idempotency::ReplayCacheOptions().capacity_bytes,
    "Memory of the guard for completed charges, in bytes; 0: each replay is from idempotencyd.");
ABSL_FLAG(std::string, namespace, "payments", "The namespace of the records in idempotencyd.");
ABSL_FLAG(std::string, scope, "shared:demo",
          "The scope of a call's key: shared:NAME (a service with a single caller), metadata:KEY"
          " (set by an authenticating proxy) or authorization (static credentials).");

namespace payments {
namespace {

absl::StatusOr<idempotency::ScopeFunction> ScopeFromFlag(absl::string_view flag) {
  if (absl::ConsumePrefix(&flag, "shared:") && !flag.empty()) {
    return idempotency::SharedScope(std::string(flag));
  }
  if (absl::ConsumePrefix(&flag, "metadata:") && !flag.empty()) {
    return idempotency::MetadataScope(std::string(flag));
  }
  if (flag == "authorization") return idempotency::AuthorizationScope();
  return absl::InvalidArgumentError("--scope is shared:NAME, metadata:KEY or authorization");
}

absl::StatusOr<idempotency::GuardOptions> OptionsFromFlags() {
  auto scope = ScopeFromFlag(absl::GetFlag(FLAGS_scope));
  if (!scope.ok()) return scope.status();
  idempotency::GuardOptions options;
  options.name_space = absl::GetFlag(FLAGS_namespace);
  options.scope = *std::move(scope);
  options.replay_cache.capacity_bytes = absl::GetFlag(FLAGS_replay_cache_bytes);
  const auto lease_from_flag = [lease = absl::GetFlag(FLAGS_lease)](
                                   idempotency::MethodPolicy& policy) { policy.lease = lease; };
  options.methods["/payments.v1.Payments/Charge"].adjust = lease_from_flag;
  options.methods["/payments.v1.Payments/Refund"].adjust = lease_from_flag;
  return options;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsFromFlags() {
  const std::string authority = absl::GetFlag(FLAGS_idempotencyd_ca);
  if (authority.empty()) return grpc::InsecureChannelCredentials();
  return idempotency::IdempotencydChannelCredentials(
      {authority, absl::GetFlag(FLAGS_idempotencyd_cert), absl::GetFlag(FLAGS_idempotencyd_key),
       /*token=*/""});
}

absl::StatusOr<std::unique_ptr<idempotency::ServerGuard>> Guard(grpc::ServerBuilder& builder,
                                                                grpc::Service* payments) {
  auto options = OptionsFromFlags();
  if (!options.ok()) return options.status();
  // With it grpcurl prints the reason of a refusal.
  idempotency::ReflectErrorDetails();
  const auto credentials = CredentialsFromFlags();
  if (!credentials.ok()) return credentials.status();
  auto channel = grpc::CreateCustomChannel(absl::GetFlag(FLAGS_idempotencyd), *credentials,
                                           idempotency::IdempotencydChannelArguments());
  auto guard = idempotency::ServerGuard::Create(channel, *std::move(options));
  if (!guard.ok()) return guard.status();
  absl::Status guarded = (*guard)->Protect<v1::Payments>(builder, payments);
  if (guarded.ok()) guarded = (*guard)->Install(builder);
  if (!guarded.ok()) return guarded;
  return guard;
}

}  // namespace

std::unique_ptr<idempotency::ServerGuard> GuardOrExit(grpc::ServerBuilder& builder,
                                                      grpc::Service* payments) {
  auto guard = Guard(builder, payments);
  if (guard.ok()) return *std::move(guard);
  spdlog::error("{}", std::string(guard.status().message()));
  std::exit(1);
}

}  // namespace payments
