#ifndef IDEMPOTENCY_SERVER_PROCESS_LISTENER_OPTIONS_H_
#define IDEMPOTENCY_SERVER_PROCESS_LISTENER_OPTIONS_H_

#include <algorithm>
#include <cstddef>

#include "absl/time/time.h"

#include "grpc_idempotency/limits.h"
#include "server/limits.h"
#include "server/process/connection_table.h"
#include "server/process/port_probe.h"
#include "server/rpc/call_table.h"

namespace idempotency::internal {

// The bounds of a server's connections and of their memory.
struct ListenerOptions {
  // Half of them for one address, so that one client never excludes the others.
  static ConnectionTable::Limits ConnectionsWithin(int max_connections) {
    return {max_connections, (max_connections + 1) / 2};
  }

  ConnectionTable::Limits connections = ConnectionsWithin(limits::kMaxConnections);
  absl::Duration handshake_timeout = limits::kHandshakeTimeout;
  absl::Duration max_connection_idle = limits::kMaxConnectionIdle;
  // Plus or minus a tenth, chosen by gRPC, so that connections opened together do
  // not end together.
  absl::Duration max_connection_age = limits::kMaxConnectionAge;
  // Below twice limits::kMaxWait a call that waits for a running attempt may be cut.
  absl::Duration connection_grace = limits::kConnectionGrace;
  int max_streams = limits::kMaxStreams;
  // The calls of all connections.
  CallTable::Limits calls = CallTable::Within(limits::kMaxCalls);
  std::size_t max_bytes = limits::kListenerBytes;
  // gRPC's own service about connections and calls, which `calls` does not count. For the whole
  // process.
  bool channelz = false;
  PortProbe::Intervals probe;

  // The age at which a session makes its client open another. It began before its
  // connection's age was reached, so that half of the grace is left then. A grace above the default
  // is for exchanges: sessions move no later, so that their clients find new replicas.
  absl::Duration session_age() const {
    return std::min(connection_grace, limits::kConnectionGrace) / 2;
  }

  // Those of the port for operations, which are soon over: a caller whose certificate has expired
  // loses its connection within the hour.
  ListenerOptions ForOperations() const {
    ListenerOptions operations = *this;
    operations.connection_grace = std::min(connection_grace, limits::kDefaultMaxLease);
    return operations;
  }

  // Those of the external processor's port. An exchange lasts as long as its upstream works.
  ListenerOptions ForExchanges() const {
    ListenerOptions exchanges = *this;
    exchanges.connection_grace = std::max(connection_grace, limits::kDefaultMaxLease);
    return exchanges;
  }
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_LISTENER_OPTIONS_H_
