#include "grpc_idempotency/client/connection_factory.h"

#include <utility>

#include "client/connection/session_connection.h"
#include "client/connection/unary_connection.h"
#include "core/application_log.h"

namespace idempotency {

using internal::ApplicationLog;
using internal::MakeSessionConnection;
using internal::MakeUnaryConnection;

std::unique_ptr<Connection> MakeConnection(std::shared_ptr<grpc::Channel> channel,
                                           const ConnectionOptions& options) {
  const ApplicationLog log(options.log);
  if (options.kind == ConnectionOptions::Kind::kUnary) {
    return MakeUnaryConnection(std::move(channel), log);
  }
  return MakeSessionConnection(std::move(channel), options.session, log);
}

}  // namespace idempotency
