#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CLOSABLE_CONNECTION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CLOSABLE_CONNECTION_H_

#include <cstddef>
#include <memory>

#include "core/mutex.h"
#include "grpc_idempotency/client/connection.h"

namespace idempotency::internal {

// A Connection that can be taken away while others still hold a reference to
// it: after Close() every call is answered with STORE_UNAVAILABLE at once.
// Thread-safe.
class ClosableConnection final : public Connection {
 public:
  explicit ClosableConnection(std::unique_ptr<Connection> connection);
  // Close().
  ~ClosableConnection() override;

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

  // Waits for calls that are being made, then destroys the connection, which
  // answers what is outstanding. Safe to call twice.
  void Close();

 private:
  bool Enter();
  void Leave();
  template <typename Request, typename Response>
  void Call(void (Connection::*method)(const Request&, Deadline, Callback<Response>),
            const Request& request, Deadline deadline, Callback<Response> done);

  std::unique_ptr<Connection> connection_;
  Mutex mutex_;
  CondVar left_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Calls inside the connection right now.
  std::size_t inside_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CLOSABLE_CONNECTION_H_
