#ifndef GRPC_IDEMPOTENCY_CLIENT_CONNECTION_FACTORY_H_
#define GRPC_IDEMPOTENCY_CLIENT_CONNECTION_FACTORY_H_

#include <grpcpp/channel.h>

#include <cstddef>
#include <memory>

#include "absl/time/time.h"

#include "grpc_idempotency/client/connection.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/log_sink.h"

namespace idempotency {

// Durations below zero act as zero.
struct SessionConnectionOptions {
  static constexpr int kMaxStreams = 64;

  // The number of open streams; each operation goes to the stream that has the fewest
  // unanswered ones. One stream batches best. A stream stays with one daemon: if the channel
  // leads to several daemons and this client alone should use all of them, as many streams as
  // daemons (grpc_idempotency/client/channel_arguments.h spreads them). Below 1 acts as 1,
  // above kMaxStreams as kMaxStreams.
  int streams = 1;
  // The maximum number of reservations and reads that wait for room in the daemon's window. One
  // more is answered with OVERLOADED. As many as the daemon queues: more would only grow old.
  // Below 1 acts as 1.
  std::size_t max_waiting = limits::kMaxQueuedOperations;
  // How long a daemon's answer may be overdue after its operation's deadline, while nothing
  // else arrives on that stream, before the client replaces the stream by one to the next
  // daemon. Until then every call of this client waits for a daemon that hangs. A daemon
  // answers within milliseconds of a deadline unless its store delays the batch; a stream that
  // is replaced too early costs a repeat with the same tokens.
  absl::Duration silence_allowed = absl::Seconds(3);
  // How long the client uses unary calls with a daemon that has no Session, before it tries one
  // stream again.
  absl::Duration retry_session_after = absl::Minutes(5);
  // A stream that owes no answer is not read before the next operation is written to it, so
  // that the packet of that operation carries what flow control has to send; but it is read
  // after this time. The client may notice only then that an idle stream has ended or that its
  // daemon drains; an operation that is sent before that is sent again on another stream, if
  // needed. 100 ms: a tenth of what a daemon takes at the least from draining to its end.
  absl::Duration max_read_delay = absl::Milliseconds(100);
};

struct ConnectionOptions {
  enum class Kind {
    // Streams, and unary calls with a daemon that does not have them.
    kSession,
    // One unary call for each operation: for proxies that break long streams.
    kUnary,
  };
  Kind kind = Kind::kSession;
  SessionConnectionOptions session;
  // Receives one line for each change of the connection's state (it has no connection, no
  // sessions, or has them again); empty: spdlog's default logger.
  LogSink log;
};

// Creates a Connection to idempotencyd over `channel`, which may be remote (create it with
// IdempotencydChannelArguments()) or grpc::Server::InProcessChannel(), and must not be null.
// Connects with the first operation, so that it neither blocks nor fails: while no daemon can be
// reached, operations are answered with STORE_UNAVAILABLE. Thread-safe; so is the Connection.
std::unique_ptr<Connection> MakeConnection(std::shared_ptr<grpc::Channel> channel,
                                           const ConnectionOptions& options = {});

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_CONNECTION_FACTORY_H_
