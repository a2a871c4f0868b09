#include "client/connection_factory.h"

#include <utility>

#include "client/unary_connection.h"

namespace idempotency {

std::unique_ptr<Connection> MakeConnection(std::shared_ptr<grpc::Channel> channel,
                                           const ConnectionOptions& options) {
  if (options.kind == ConnectionOptions::Kind::kUnary) {
    return MakeUnaryConnection(std::move(channel));
  }
  return MakeSessionConnection(std::move(channel), options.session);
}

}  // namespace idempotency
