#include "client/session_connection.h"

#include <utility>

#include "client/session.h"
#include "client/session_link.h"
#include "client/unary_connection.h"

namespace idempotency::internal {

std::unique_ptr<Connection> MakeSessionConnection(std::shared_ptr<grpc::Channel> channel,
                                                  SessionConnectionOptions options,
                                                  const ApplicationLog& log) {
  auto streams = SessionLinksOver(channel);
  return std::make_unique<Session>(std::move(streams), MakeUnaryConnection(std::move(channel), log),
                                   options, log);
}

}  // namespace idempotency::internal
