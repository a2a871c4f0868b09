#ifndef IDEMPOTENCY_CLIENT_CONNECTION_FACTORY_H_
#define IDEMPOTENCY_CLIENT_CONNECTION_FACTORY_H_

#include <grpcpp/channel.h>

#include <memory>

#include "client/connection.h"
#include "client/session_connection.h"
#include "core/log_sink.h"

namespace idempotency {

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

#endif  // IDEMPOTENCY_CLIENT_CONNECTION_FACTORY_H_
