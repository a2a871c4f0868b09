#ifndef IDEMPOTENCY_CLIENT_CHANNEL_ARGUMENTS_H_
#define IDEMPOTENCY_CLIENT_CHANNEL_ARGUMENTS_H_

#include <grpcpp/support/channel_arguments.h>

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
grpc::ChannelArguments IdempotencydChannelArguments();

}  // namespace idempotency

#endif  // IDEMPOTENCY_CLIENT_CHANNEL_ARGUMENTS_H_
