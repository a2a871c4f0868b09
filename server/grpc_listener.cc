#include "server/grpc_listener.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/server_builder.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"

#include "core/deadline.h"

namespace idempotency {
namespace {

// Plugins are for the whole process and for every server built after them.
void EnablePlugins() {
  static const bool once = [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::channelz::experimental::InitChannelzService();
    // The linker leaves out what nobody asks for, and reflection with it.
    google::rpc::ErrorInfo::descriptor();
    return true;
  }();
  static_cast<void>(once);
}

void SetChannelArguments(grpc::ServerBuilder& builder) {
  // Two daemons on one port would share its connections without a word.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Clients may ping every 10 s, calls or not, to notice a dead connection;
  // gRPC would drop them for more than one ping in five minutes. The margin is
  // for timers that fire early.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // And the server pings, so that calls that wait for a client that vanished
  // end and leave the wait room.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcListener>> GrpcListener::Start(
    const NetworkAddress& address, const std::shared_ptr<grpc::ServerCredentials>& credentials,
    ServiceStack& stack) {
  EnablePlugins();
  grpc::ServerBuilder builder;
  SetChannelArguments(builder);
  int port = 0;
  builder.AddListeningPort(address.ToString(), credentials, &port);
  stack.Register(builder);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", address.ToString(),
                     ": it may be in use, or not an address of this machine"));
  }
  NetworkAddress bound = address;
  if (bound.unix_path.empty()) bound.port = static_cast<std::uint16_t>(port);
  return std::unique_ptr<GrpcListener>(new GrpcListener(std::move(server), std::move(bound)));
}

GrpcListener::GrpcListener(std::unique_ptr<grpc::Server> server, NetworkAddress address)
    : server_(std::move(server)), address_(std::move(address)) {}

GrpcListener::~GrpcListener() { Drain(absl::ZeroDuration()); }

void GrpcListener::Drain(absl::Duration timeout) {
  if (drained_) return;
  drained_ = true;
  server_->Shutdown(GrpcDeadlineIn(timeout));
  server_->Wait();
}

}  // namespace idempotency
