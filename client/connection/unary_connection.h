#ifndef IDEMPOTENCY_CLIENT_CONNECTION_UNARY_CONNECTION_H_
#define IDEMPOTENCY_CLIENT_CONNECTION_UNARY_CONNECTION_H_

#include <grpcpp/channel.h>

#include <memory>

#include "core/application_log.h"
#include "grpc_idempotency/client/connection.h"

namespace idempotency::internal {

// A Connection that sends each operation as one unary RPC over `channel`,
// which may be remote (make it with IdempotencydChannelArguments()) or
// grpc::Server::InProcessChannel().
//
// Calls are fail-fast: while the daemon cannot be reached they are answered
// STORE_UNAVAILABLE at once, not at their deadline, and the caller decides how to repeat. The first
// that fails may have been sent; later ones are not sent, and are NotConnected(), while the channel
// has no connection. Callbacks run on gRPC's threads. Do not destroy the connection in
// one of them: its destructor waits for the callback that it would run in.
//
// STORE_UNAVAILABLE is also the answer to any other status that names no reason
// of the catalogue, such as a refusal by a proxy in between: there is no verdict.
// Its message contains the status code; gRPC's own text, which may hold
// addresses, goes to the log when the state changes, not to callers.
std::unique_ptr<Connection> MakeUnaryConnection(std::shared_ptr<grpc::Channel> channel,
                                                const ApplicationLog& log = ApplicationLog());

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_CONNECTION_UNARY_CONNECTION_H_
