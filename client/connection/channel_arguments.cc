#include "grpc_idempotency/client/channel_arguments.h"

#include <grpc/grpc.h>

#include "core/ping_timeout.h"
#include "grpc_idempotency/limits.h"

namespace idempotency {
namespace {

// gRPC raises a smaller one to this.
constexpr int kFirstReconnectMs = 100;
// How late a client may notice that the daemon is back.
constexpr int kMaxReconnectMs = 500;
// gRPC calls it the minimal backoff, but it is the time that one attempt to
// connect is given: a TLS handshake with a busy peer must fit.
constexpr int kConnectTimeoutMs = 5000;
constexpr int kMinTimeBetweenNameLookupsMs = 2000;
constexpr int kKeepaliveTimeMs = 20'000;
// Also the TCP user timeout of the connection.
constexpr int kKeepaliveTimeoutMs = 5000;

}  // namespace

grpc::ChannelArguments IdempotencydChannelArguments(const std::string& certificate_name) {
  grpc::ChannelArguments arguments;
  if (!certificate_name.empty()) arguments.SetSslTargetNameOverride(certificate_name);
  arguments.SetLoadBalancingPolicyName("round_robin");
  arguments.SetMaxReceiveMessageSize(static_cast<int>(limits::kMaxMessageBytes));
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kMinTimeBetweenNameLookupsMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(internal::kPingTimeoutArgument, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  return arguments;
}

}  // namespace idempotency
