#ifndef IDEMPOTENCY_CLIENT_SESSION_CONNECTION_H_
#define IDEMPOTENCY_CLIENT_SESSION_CONNECTION_H_

#include <grpcpp/channel.h>

#include <chrono>
#include <cstddef>
#include <memory>

#include "client/connection.h"
#include "core/application_log.h"
#include "core/limits.h"

namespace idempotency {

struct SessionConnectionOptions {
  // How many streams are kept open; each operation goes to the one that has the
  // fewest unanswered. One gathers best. A stream stays with one daemon: where
  // the channel leads to several and this client alone should keep all of them
  // busy, as many as there are (client/channel_arguments.h spreads them).
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

// A Connection that sends operations over IdempotencyService.Session: what is
// asked for while a frame is being written leaves in the next one. A lone
// operation is written at once, on the thread that asks.
//
// Like unary calls it is fail-fast: while the daemon cannot be reached,
// operations are answered STORE_UNAVAILABLE at once. When a stream breaks, its
// unanswered operations are sent again on another, with the same tokens, up to
// their deadlines; a Reserve without a request_token is given one, so that its
// repeat is recognised. A daemon that drains is left without an error. With a
// daemon that has no Session, operations are sent as unary calls.
//
// The first operation opens the first stream; nothing is sent before. Errors
// are those of MakeUnaryConnection(), and OVERLOADED (SessionConnectionOptions). An
// operation that is too large for any message is REQUEST_INVALID.
//
// Callbacks run on gRPC's threads, on the connection's own (passed deadlines),
// or within the call; those of one frame one after the other. Do not destroy
// the connection in one of them: its destructor waits for them.
std::unique_ptr<Connection> MakeSessionConnection(std::shared_ptr<grpc::Channel> channel,
                                                  SessionConnectionOptions options = {},
                                                  const ApplicationLog& log = ApplicationLog());

}  // namespace idempotency

#endif  // IDEMPOTENCY_CLIENT_SESSION_CONNECTION_H_
