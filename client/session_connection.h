#ifndef IDEMPOTENCY_CLIENT_SESSION_CONNECTION_H_
#define IDEMPOTENCY_CLIENT_SESSION_CONNECTION_H_

#include <grpcpp/channel.h>

#include <chrono>
#include <cstddef>
#include <memory>

#include "core/application_log.h"
#include "grpc_idempotency/client/connection.h"
#include "grpc_idempotency/client/connection_factory.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {

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

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SESSION_CONNECTION_H_
