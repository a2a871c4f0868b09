#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CONNECTION_CLOSABLE_CONNECTION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CONNECTION_CLOSABLE_CONNECTION_H_

#include <cstddef>
#include <memory>

#include "core/mutex.h"
#include "grpc_idempotency/client/connection.h"

namespace idempotency::internal {

// A guard's connection to the service, which its owner can close while other objects still have a
// reference to it: after Close() every call is answered with STORE_UNAVAILABLE at once.
//
// Thread-safe.
class ClosableConnection final : public Connection {
 public:
  explicit ClosableConnection(std::unique_ptr<Connection> inner);
  // Close().
  ~ClosableConnection() override;

  void Send(AnyConnectionCall call, Deadline deadline) override;

  // Waits for calls that are being made, then destroys the inner connection, which answers the
  // outstanding ones. Safe to call twice.
  void Close();

 private:
  bool Enter();
  void Leave();

  std::unique_ptr<Connection> inner_;
  Mutex mutex_;
  CondVar left_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Calls inside the inner connection right now.
  std::size_t inside_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CONNECTION_CLOSABLE_CONNECTION_H_
