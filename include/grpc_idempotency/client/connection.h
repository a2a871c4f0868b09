#ifndef GRPC_IDEMPOTENCY_CLIENT_CONNECTION_H_
#define GRPC_IDEMPOTENCY_CLIENT_CONNECTION_H_

#include <chrono>
#include <functional>

#include "absl/status/statusor.h"

#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency {

// The operations of idempotencyd, asynchronously. What the guard is written
// against, so that tests can put their own in its place.
//
// Every call is answered exactly once, on any thread, possibly before the
// method returns; a callback must not block. Statuses are of the catalogue in
// grpc_idempotency/errors.h where the service spoke; a transport failure or a passed
// deadline is STORE_UNAVAILABLE and indefinite: repeat the call with the same
// tokens. One that was never sent says so (client/not_connected.h). KindOfAnswer()
// (core/answer_kind.h) tells what a status means for what follows. A request with a
// text that is not UTF-8 is REQUEST_INVALID and is not sent.
//
// Thread-safe.
class Connection {
 public:
  // Monotonic: a caller bounds its waiting by its own time.
  using Deadline = std::chrono::steady_clock::time_point;
  template <typename Response>
  using Callback = std::function<void(absl::StatusOr<Response>)>;

  // Destroying a connection answers what is outstanding with
  // STORE_UNAVAILABLE, and returns when the last callback has run.
  virtual ~Connection() = default;

  virtual void Reserve(const v1::ReserveRequest& request, Deadline deadline,
                       Callback<v1::ReserveResponse> done) = 0;
  virtual void Complete(const v1::CompleteRequest& request, Deadline deadline,
                        Callback<v1::CompleteResponse> done) = 0;
  virtual void Release(const v1::ReleaseRequest& request, Deadline deadline,
                       Callback<v1::ReleaseResponse> done) = 0;
  virtual void Extend(const v1::ExtendRequest& request, Deadline deadline,
                      Callback<v1::ExtendResponse> done) = 0;
  virtual void Get(const v1::GetRequest& request, Deadline deadline,
                   Callback<v1::GetResponse> done) = 0;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_CONNECTION_H_
