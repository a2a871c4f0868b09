#include "tests/support/probe_server.h"

#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/client/connection_factory.h"

namespace idempotency::internal::testing {
namespace {

void OrAbort(const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << "guarded server: " << status << "\n";
  std::abort();
}

}  // namespace

GuardOptions ProbeServer::WithoutReplayCache() {
  GuardOptions options;
  options.replay_cache.capacity_bytes = 0;
  options.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
  // The disk of a busy machine has stalled for longer than the default.
  options.verdict_timeout = absl::Seconds(10);
  return options;
}

namespace {

std::unique_ptr<Connection> Connect(const ProbeServer::Options& options) {
  if (options.connect) return options.connect();
  std::shared_ptr<grpc::Channel> channel = options.channel;
  if (channel == nullptr) {
    channel = grpc::CreateCustomChannel(options.idempotencyd, grpc::InsecureChannelCredentials(),
                                        IdempotencydChannelArguments());
  }
  return MakeConnection(std::move(channel), options.guard.connection);
}

}  // namespace

ProbeServer::ProbeServer(Options options)
    : service_(ProbeService::Make(options.api, std::move(options.handler))) {
  if (options.guard.name_space.empty()) options.guard.name_space = "probe";
  if (!options.guard.scope) options.guard.scope = SharedScope("everybody");
  std::unique_ptr<Connection> connection = Connect(options);
  if (options.gate != nullptr) connection = Gated(std::move(connection), options.gate);
  auto guard = ServerGuard::Create(std::move(connection), std::move(options.guard));
  OrAbort(guard.status());
  guard_ = *std::move(guard);

  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", options.credentials, &port);
  if (options.configure) options.configure(builder);
  OrAbort(options.protect ? options.protect(*guard_, builder)
                          : guard_->Protect<Probe>(builder, service_->service()));
  OrAbort(guard_->Install(builder, std::move(options.interceptors)));
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) OrAbort(absl::InternalError("did not start"));
  address_ = absl::StrCat("127.0.0.1:", port);
}

ProbeServer::~ProbeServer() { Stop(std::chrono::system_clock::now() + std::chrono::seconds(10)); }

void ProbeServer::Stop(std::chrono::system_clock::time_point deadline) {
  guard_->Close();
  server_->Shutdown(deadline);
}

}  // namespace idempotency::internal::testing
