#ifndef GRPC_IDEMPOTENCY_CLIENT_CONNECTION_FACTORY_H_
#define GRPC_IDEMPOTENCY_CLIENT_CONNECTION_FACTORY_H_

#include <grpcpp/channel.h>

#include <chrono>
#include <cstddef>
#include <memory>

#include "grpc_idempotency/client/connection.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/log_sink.h"

namespace idempotency {

struct SessionConnectionOptions {
  // How many streams are kept open; each operation goes to the one that has the
  // fewest unanswered. One gathers best. A stream stays with one daemon: where
  // the channel leads to several and this client alone should keep all of them
  // busy, as many as there are (grpc_idempotency/client/channel_arguments.h spreads them).
  int streams = 1;
  // Reservations and reads that wait for room in the daemon's window. One more
  // is answered OVERLOADED.
  std::size_t max_waiting = limits::kMaxQueuedOperations;
  // How long a daemon may owe an answer after its operation's deadline, while nothing
  // else comes on that stream, before the stream is given up for one to the next daemon.
  // Until then every call of this client waits for a daemon that is frozen. A daemon
  // answers within milliseconds of a deadline unless its store holds the batch; a stream
  // that is given up too early costs a repeat with the same tokens.
  std::chrono::steady_clock::duration silence_allowed = std::chrono::seconds(3);
  // How long unary calls are used with a daemon that has no Session, before one
  // stream is tried again.
  std::chrono::steady_clock::duration retry_session_after = std::chrono::minutes(5);
};

struct ConnectionOptions {
  enum class Kind {
    // Streams, and unary calls with a daemon that does not have them.
    kSession,
    // One call for each operation: for proxies that break long streams.
    kUnary,
  };
  Kind kind = Kind::kSession;
  SessionConnectionOptions session;
  // Where its log lines go, one for each change of its state (it has no connection, no
  // sessions, or they are back); empty: spdlog's default logger.
  LogSink log;
};

// A Connection to idempotencyd over `channel`, which may be remote (make it with
// IdempotencydChannelArguments()) or grpc::Server::InProcessChannel().
std::unique_ptr<Connection> MakeConnection(std::shared_ptr<grpc::Channel> channel,
                                           const ConnectionOptions& options = {});

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_CONNECTION_FACTORY_H_
