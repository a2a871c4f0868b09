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

  void Reserve(const v1::ReserveRequest& request, Deadline deadline,
               Callback<v1::ReserveResponse> done) override;
  void Complete(const v1::CompleteRequest& request, Deadline deadline,
                Callback<v1::CompleteResponse> done) override;
  void Release(const v1::ReleaseRequest& request, Deadline deadline,
               Callback<v1::ReleaseResponse> done) override;
  void Extend(const v1::ExtendRequest& request, Deadline deadline,
              Callback<v1::ExtendResponse> done) override;
  void Get(const v1::GetRequest& request, Deadline deadline,
           Callback<v1::GetResponse> done) override;

 private:
  const std::shared_ptr<ReplayCache> cache_;
  const std::unique_ptr<Connection> inner_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CACHING_CONNECTION_H_
