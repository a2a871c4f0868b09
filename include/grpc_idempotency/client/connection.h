#ifndef GRPC_IDEMPOTENCY_CLIENT_CONNECTION_H_
#define GRPC_IDEMPOTENCY_CLIENT_CONNECTION_H_

#include <functional>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"

#include "grpc_idempotency/deadline.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency {

// One operation for a Connection: its request, which is valid until Send() returns, and the
// callback that receives its response.
template <typename RequestType, typename ResponseType>
struct ConnectionCall {
  using Request = RequestType;
  using Response = ResponseType;

  const Request& request;
  std::function<void(absl::StatusOr<Response>)> done;
};

using AnyConnectionCall = std::variant<ConnectionCall<v1::ReserveRequest, v1::ReserveResponse>,
                                       ConnectionCall<v1::CompleteRequest, v1::CompleteResponse>,
                                       ConnectionCall<v1::ReleaseRequest, v1::ReleaseResponse>,
                                       ConnectionCall<v1::ExtendRequest, v1::ExtendResponse>,
                                       ConnectionCall<v1::GetRequest, v1::GetResponse>>;

// The operations of idempotencyd, asynchronously. The guard depends on this interface, so
// that a test can replace the daemon.
//
// Every call is answered exactly once, on any thread, possibly before the method returns; a
// callback must not block. An exception of a callback is logged, and has no other effect. A status
// that the service returned is one of the catalogue in grpc_idempotency/errors.h; a transport
// failure or a passed deadline is STORE_UNAVAILABLE and indefinite: repeat the call with the same
// tokens. The status of a call that was never sent has `cause: NOT_CONNECTED` in its ErrorInfo. A
// request with a text that is not UTF-8 is REQUEST_INVALID and is not sent.
//
// Thread-safe.
class Connection {
 public:
  using Deadline = SteadyTime;
  template <typename Response>
  using Callback = std::function<void(absl::StatusOr<Response>)>;

  // Destroying a connection answers the outstanding calls with STORE_UNAVAILABLE, and
  // returns when the last callback has returned.
  virtual ~Connection() = default;

  virtual void Send(AnyConnectionCall call, Deadline deadline) = 0;

  // Send() for each operation.
  void Reserve(const v1::ReserveRequest& request, Deadline deadline,
               Callback<v1::ReserveResponse> done) {
    SendCall(request, deadline, std::move(done));
  }
  void Complete(const v1::CompleteRequest& request, Deadline deadline,
                Callback<v1::CompleteResponse> done) {
    SendCall(request, deadline, std::move(done));
  }
  void Release(const v1::ReleaseRequest& request, Deadline deadline,
               Callback<v1::ReleaseResponse> done) {
    SendCall(request, deadline, std::move(done));
  }
  void Extend(const v1::ExtendRequest& request, Deadline deadline,
              Callback<v1::ExtendResponse> done) {
    SendCall(request, deadline, std::move(done));
  }
  void Get(const v1::GetRequest& request, Deadline deadline, Callback<v1::GetResponse> done) {
    SendCall(request, deadline, std::move(done));
  }

 private:
  template <typename Request, typename Response>
  void SendCall(const Request& request, Deadline deadline, Callback<Response> done) {
    Send(ConnectionCall<Request, Response>{request, std::move(done)}, deadline);
  }
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_CONNECTION_H_
