#ifndef GRPC_IDEMPOTENCY_CLIENT_CHANNEL_ARGUMENTS_H_
#define GRPC_IDEMPOTENCY_CLIENT_CHANNEL_ARGUMENTS_H_

#include <grpcpp/support/channel_arguments.h>

#include <string>

namespace idempotency {

// What a channel to idempotencyd should be made with; gRPC's defaults are made
// for links that may stay down, and replies of at most 4 MiB.
//
//   auto channel = grpc::CreateCustomChannel(target, credentials,
//                                            idempotency::IdempotencydChannelArguments());
//
// Several addresses behind the target are all connected to, and take turns: the
// next stream, or unary call, goes to the next one (gRPC: all go to the first).
// Receives messages up to limits::kMaxMessageBytes. Tries to connect again
// after 100 ms, then at growing intervals up to 1 s (gRPC: up to 120 s), and
// looks the name up again at most every 2 s (gRPC: 30 s), so that a restarted
// or moved daemon is found quickly. A peer that has silently gone is noticed
// while calls are outstanding: unacknowledged bytes break the connection after
// 5 s, and a quiet one is pinged every 20 s. An idle connection is not pinged:
// servers with gRPC's defaults would close it for that.
//
// With TLS, `certificate_name` is the name that every daemon's certificate is for. Empty:
// the target's host, as of dns:///idempotencyd:7411. A list of addresses, such as
// ipv4:10.0.0.1:7411,10.0.0.2:7411, has no such name and needs one here: without it gRPC
// compares the whole list with the certificate and refuses every connection ("Peer name
// ... is not in peer certificate").
grpc::ChannelArguments IdempotencydChannelArguments(const std::string& certificate_name = "");

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_CHANNEL_ARGUMENTS_H_
