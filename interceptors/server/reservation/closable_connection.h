#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CLOSABLE_CONNECTION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CLOSABLE_CONNECTION_H_

#include <cstddef>
#include <memory>

#include "core/mutex.h"
#include "grpc_idempotency/client/connection.h"

namespace idempotency::internal {

// A Connection that can be closed while other objects still have a reference to it: after
// Close() every call is answered with STORE_UNAVAILABLE at once. Thread-safe.
class ClosableConnection final : public Connection {
 public:
  explicit ClosableConnection(std::unique_ptr<Connection> connection);
  // Close().
  ~ClosableConnection() override;

  void Send(AnyConnectionCall call, Deadline deadline) override;

  // Waits for calls that are being made, then destroys the connection, which answers the
  // outstanding ones. Safe to call twice.
  void Close();

 private:
  bool Enter();
  void Leave();

  std::unique_ptr<Connection> connection_;
  Mutex mutex_;
  CondVar left_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Calls inside the connection right now.
  std::size_t inside_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CLOSABLE_CONNECTION_H_
