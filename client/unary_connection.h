#ifndef IDEMPOTENCY_CLIENT_UNARY_CONNECTION_H_
#define IDEMPOTENCY_CLIENT_UNARY_CONNECTION_H_

#include <grpcpp/channel.h>

#include <memory>

#include "client/connection.h"

namespace idempotency {

// A Connection that sends each operation as one unary RPC over `channel`,
// which may be remote or grpc::Server::InProcessChannel().
std::unique_ptr<Connection> MakeUnaryConnection(std::shared_ptr<grpc::Channel> channel);

}  // namespace idempotency

#endif  // IDEMPOTENCY_CLIENT_UNARY_CONNECTION_H_
