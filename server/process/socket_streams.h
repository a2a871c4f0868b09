#ifndef IDEMPOTENCY_SERVER_PROCESS_SOCKET_STREAMS_H_
#define IDEMPOTENCY_SERVER_PROCESS_SOCKET_STREAMS_H_

#include <cstdint>
#include <vector>

#include "server/process/remote_address.h"

namespace idempotency::internal {

// What gRPC counts by itself (channelz), for all servers of the process.

// The calls that have begun, also those that no code has seen yet.
std::int64_t CallsBegun();

// The streams of a connection.
struct SocketStreams {
  RemoteAddress remote;
  std::int64_t begun = 0;
  // Ended by the server.
  std::int64_t answered = 0;
  // Ended otherwise, for example by the client.
  std::int64_t failed = 0;
};
// Those of all TCP connections.
std::vector<SocketStreams> AllSocketStreams();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_SOCKET_STREAMS_H_
