#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CONNECTION_STORE_CONNECTION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CONNECTION_STORE_CONNECTION_H_

#include <cstddef>
#include <memory>

#include "core/mutex.h"
#include "grpc_idempotency/client/connection.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "interceptors/server/connection/replay_cache.h"

namespace idempotency::internal {

// A guard's connection to the service, with the cache of replays in front of it. The cache is
// filled from the traffic: from a `replay` of the service, and from a Complete that the service
// acknowledged for a grant that passed through here. It keeps the service's answer, field by
// field.
//
// The owner can close it while other objects still have a reference to it: after Close() every
// call is answered with STORE_UNAVAILABLE at once.
//
// Thread-safe.
class StoreConnection final : public Connection {
 public:
  // `cache` may be nullptr.
  StoreConnection(std::unique_ptr<Connection> inner, std::shared_ptr<ReplayCache> cache);
  // Close().
  ~StoreConnection() override;

  // The cached replay that the service would answer; nullptr if it must be called.
  std::shared_ptr<const ReplayCache::Answer> FindReplay(const v1::ReserveRequest& request) const;

  void Send(AnyConnectionCall call, Deadline deadline) override;

  // Waits for calls that are being made, then destroys the inner connection, which answers the
  // outstanding ones. Safe to call twice.
  void Close();

 private:
  bool Enter();
  void Leave();
  // Each stores the answer in the cache before the caller gets it.
  void KeepAnswer(ConnectionCall<v1::ReserveRequest, v1::ReserveResponse>& call) const;
  void KeepAnswer(ConnectionCall<v1::CompleteRequest, v1::CompleteResponse>& call) const;

  const std::shared_ptr<ReplayCache> cache_;
  std::unique_ptr<Connection> inner_;
  Mutex mutex_;
  CondVar left_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Calls inside the inner connection right now.
  std::size_t inside_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CONNECTION_STORE_CONNECTION_H_
