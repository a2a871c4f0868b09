#include "server/process/grpc_listener.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "absl/status/status.h"

#include "core/ping_timeout.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/error_reflection.h"
#include "server/limits.h"

namespace idempotency::internal {
namespace {

void ReflectErrorDetailsOnce() {
  static const bool once = [] {
    ReflectErrorDetails();
    return true;
  }();
  static_cast<void>(once);
}

// For every server of the process that is built after it. gRPC keeps its calls until their messages
// have arrived; nothing counts them.
void EnableChannelz() {
  static const bool once = [] {
    grpc::channelz::experimental::InitChannelzService();
    return true;
  }();
  static_cast<void>(once);
}

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(std::clamp<std::int64_t>(absl::ToInt64Milliseconds(duration), 1,
                                                   std::numeric_limits<int>::max()));
}

void SetKeepalive(grpc::ServerBuilder& builder) {
  // Clients may ping every 10 s, with or without calls, to detect a lost connection;
  // gRPC would drop them for more than one ping in five minutes. The margin is
  // for timers that fire early. A client that pings more often is disconnected.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // And the server pings, so that calls of a client that vanished end, and
  // its in-flight waiters with them.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(limits::kPeerTimeout));
  builder.AddChannelArgument(kPingTimeoutArgument, Milliseconds(limits::kPeerTimeout));
}

// gRPC bounds the compressed size of a message only, and inflates all of it before any code of a
// service sees it: some kilobytes become gigabytes, on the thread that polls.
void RefuseCompression(grpc::ServerBuilder& builder) {
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  // The message of a call that is refused so may have arrived before.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
}

void SetBounds(const ListenerOptions& options, grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             Milliseconds(options.handshake_timeout));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_streams);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             Milliseconds(options.max_connection_idle));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                             Milliseconds(options.max_connection_age));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                             Milliseconds(options.connection_grace));
  RefuseCompression(builder);
  grpc::ResourceQuota quota("listener");
  quota.Resize(options.max_bytes);
  quota.SetMaxThreads(limits::kMaxListenerThreads);
  builder.SetResourceQuota(quota);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcListener>> GrpcListener::Start(
    const NetworkAddress& address, const std::shared_ptr<grpc::ServerCredentials>& credentials,
    const ListenerOptions& options, const AddServices& add_services, Observer& observer,
    OnDeaf on_deaf, const GrpcListener* shares_queues_with) {
  absl::StatusOr<ListeningSockets> sockets = ListeningSockets::Bind(address);
  if (!sockets.ok()) return sockets.status();
  ReflectErrorDetailsOnce();
  if (options.channelz) EnableChannelz();
  grpc::ServerBuilder builder;
  SetKeepalive(builder);
  SetBounds(options, builder);
  std::unique_ptr<GrpcListener> listener(
      new GrpcListener(sockets->address(), options.calls, observer));
  listener->handover_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  listener->health_.Register(builder, listener->health_methods_);
  add_services(builder, listener->methods_);
  listener->unserved_.Register(builder, listener->methods_);
  listener->reflection_.Register(builder, listener->Services(options.channelz), listener->methods_);
  listener->queues_ = shares_queues_with == nullptr
                          ? std::make_unique<CallQueues>(builder)
                          : std::make_unique<CallQueues>(builder, *shares_queues_with->queues_);
  listener->server_ = builder.BuildAndStart();
  if (listener->server_ == nullptr) {
    return absl::InternalError("gRPC cannot start a server in this process");
  }
  listener->queues_->Start(listener->methods_, listener->calls_);
  listener->queues_->Start(listener->health_methods_, listener->health_calls_);
  listener->StartAccepting(*std::move(sockets), options, observer, std::move(on_deaf));
  return listener;
}

void GrpcListener::StartAccepting(ListeningSockets sockets, const ListenerOptions& options,
                                  Observer& observer, OnDeaf on_deaf) {
  Handover& to_grpc = *handover_;
  const SocketAddress bound = sockets.Bound();
  acceptor_ = std::make_unique<ConnectionAcceptor>(
      std::move(sockets), options.connections,
      ConnectionAcceptor::Callbacks{[&to_grpc](int socket, int listening_socket) {
                                      Handover::NewConnectionParameters connection;
                                      connection.listener_fd = listening_socket;
                                      connection.fd = socket;
                                      to_grpc.HandleNewConnection(&connection);
                                    },
                                    on_deaf},
      observer);
  ConnectionAcceptor& acceptor = *acceptor_;
  streams_ = std::make_unique<StreamWatch>(
      StreamRules::Limits{options.max_streams, options.calls.calls},
      StreamWatch::Callbacks{
          [&acceptor](const RemoteAddress& remote) { acceptor.CloseForStreams(remote); },
          CallTable::AllArrived, CallTable::AllOfHost});
  probe_ = std::make_unique<PortProbe>(
      address_, bound, options.probe, [&acceptor] { return acceptor.accepted(); },
      std::move(on_deaf));
}

GrpcListener::GrpcListener(NetworkAddress address, const CallTable::Limits& calls,
                           Observer& observer)
    : address_(std::move(address)),
      calls_(calls, &observer),
      health_calls_(CallTable::Within(limits::kMaxHealthCalls), &observer) {}

std::vector<std::string> GrpcListener::Services(bool channelz) const {
  std::vector<std::string> services = methods_.services();
  const std::vector<std::string>& health = health_methods_.services();
  services.insert(services.end(), health.begin(), health.end());
  if (channelz) services.emplace_back("grpc.channelz.v1.Channelz");
  return services;
}

GrpcListener::~GrpcListener() { Drain(absl::ZeroDuration()); }

void GrpcListener::Drain(absl::Duration timeout) {
  if (drained_ || server_ == nullptr) return;
  drained_ = true;
  probe_.reset();
  streams_.reset();
  acceptor_.reset();
  server_->Shutdown(GrpcDeadlineIn(timeout));
  server_->Wait();
  queues_->Stop();
}

}  // namespace idempotency::internal
