#ifndef IDEMPOTENCY_SERVER_PROCESS_SOCKET_STREAMS_H_
#define IDEMPOTENCY_SERVER_PROCESS_SOCKET_STREAMS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "server/rpc/remote_address.h"

namespace idempotency::internal {

// gRPC's own counts (channelz), for all servers of the process. Reading them costs microseconds
// for each connection: they are found in gRPC's JSON as texts, without parsing it.

// The calls that have begun, also those that no code has seen yet.
std::int64_t CallsBegun();

// The streams of a connection.
struct SocketStreams {
  // gRPC's number of the connection, which no other gets.
  std::int64_t socket = 0;
  std::int64_t begun = 0;
  // Ended by the server.
  std::int64_t answered = 0;
  // Ended otherwise, for example by the client.
  std::int64_t failed = 0;

  std::int64_t open() const { return begun - answered - failed; }
};
// The streams of all connections that had one.
std::vector<SocketStreams> AllSocketStreams();

// nullopt if the connection is closed, or is no TCP connection.
std::optional<RemoteAddress> RemoteAddressOf(const SocketStreams& streams);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_SOCKET_STREAMS_H_
