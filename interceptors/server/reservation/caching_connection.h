#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CACHING_CONNECTION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CACHING_CONNECTION_H_

#include <memory>

#include "grpc_idempotency/client/connection.h"
#include "interceptors/server/reservation/replay_cache.h"

namespace idempotency::internal {

// A Connection that fills a cache of replays from what passes through: a `replay`
// of the service, and a Complete that the service acknowledged for a grant that
// it gave through here. What is kept is the service's answer, field by field.
// Who asks the cache does so before coming here. Thread-safe.
class CachingConnection final : public Connection {
 public:
  CachingConnection(std::unique_ptr<Connection> inner, std::shared_ptr<ReplayCache> cache);

  void Send(AnyConnectionCall call, Deadline deadline) override;

 private:
  using Reserve = ConnectionCall<v1::ReserveRequest, v1::ReserveResponse>;
  using Complete = ConnectionCall<v1::CompleteRequest, v1::CompleteResponse>;

  // Each keeps the answer before it reaches the caller.
  void KeepAnswer(Reserve& call) const;
  void KeepAnswer(Complete& call) const;

  const std::shared_ptr<ReplayCache> cache_;
  const std::unique_ptr<Connection> inner_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CACHING_CONNECTION_H_
