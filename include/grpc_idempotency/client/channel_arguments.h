#ifndef GRPC_IDEMPOTENCY_CLIENT_CHANNEL_ARGUMENTS_H_
#define GRPC_IDEMPOTENCY_CLIENT_CHANNEL_ARGUMENTS_H_

#include <grpcpp/support/channel_arguments.h>

#include <string>

namespace idempotency {

// The channel arguments for a channel to idempotencyd; gRPC's defaults are for connections that
// may stay down, and for replies of at most 4 MiB.
//
//   auto channel = grpc::CreateCustomChannel(target, credentials,
//                                            idempotency::IdempotencydChannelArguments());
//
// The channel connects to all addresses of the target and uses them in turn: the next stream,
// or unary call, goes to the next address (gRPC's default: all go to the first). It receives
// messages up to limits::kMaxMessageBytes. It reconnects after 100 ms, then at growing
// intervals up to 500 ms (gRPC: up to 120 s), and resolves the name again at most every 2 s (gRPC:
// 30 s), so that it finds a restarted or moved daemon quickly. It detects a peer that has
// disappeared silently while calls are outstanding: unacknowledged bytes break the connection
// after 5 s, and a quiet connection is pinged every 20 s. An idle connection is not pinged:
// servers with gRPC's defaults would close it for that.
//
// With TLS, `certificate_name` is the name in every daemon's certificate. Empty: the target's
// host, for example of dns:///idempotencyd:7411. A list of addresses, such as
// ipv4:10.0.0.1:7411,10.0.0.2:7411, has no such name and needs one here: without it gRPC
// compares the whole list with the certificate and refuses every connection ("Peer name ... is
// not in peer certificate").
grpc::ChannelArguments IdempotencydChannelArguments(const std::string& certificate_name = "");

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_CHANNEL_ARGUMENTS_H_
