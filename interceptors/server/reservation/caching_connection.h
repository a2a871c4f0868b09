#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CACHING_CONNECTION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CACHING_CONNECTION_H_

#include <memory>

#include "grpc_idempotency/client/connection.h"
#include "interceptors/server/reservation/replay_cache.h"

namespace idempotency::internal {

// A Connection that fills a cache of replays from its traffic: from a `replay` of the service,
// and from a Complete that the service acknowledged for a grant that passed through here. It
// keeps the service's answer, field by field. Callers query the cache before they call this
// connection. Thread-safe.
class CachingConnection final : public Connection {
 public:
  CachingConnection(std::unique_ptr<Connection> inner, std::shared_ptr<ReplayCache> cache);

  void Send(AnyConnectionCall call, Deadline deadline) override;

 private:
  using Reserve = ConnectionCall<v1::ReserveRequest, v1::ReserveResponse>;
  using Complete = ConnectionCall<v1::CompleteRequest, v1::CompleteResponse>;

  // Each stores the answer in the cache before the caller gets it.
  void KeepAnswer(Reserve& call) const;
  void KeepAnswer(Complete& call) const;

  const std::shared_ptr<ReplayCache> cache_;
  const std::unique_ptr<Connection> inner_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CACHING_CONNECTION_H_
