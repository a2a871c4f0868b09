#ifndef IDEMPOTENCY_EMBEDDED_DIRECT_CONNECTION_H_
#define IDEMPOTENCY_EMBEDDED_DIRECT_CONNECTION_H_

#include <memory>

#include "client/connection/deadline_timer.h"
#include "grpc_idempotency/client/connection.h"
#include "server/operation/operations.h"

namespace idempotency::internal {

// A Connection to a service of this process: each call is an operation of the service, begun on
// the calling thread. No channel, no message and no thread is in between; callbacks run on the
// thread that has the answer, a worker of the batcher or the calling one.
//
// Answers are those of a connection over a channel, except that none is lost on the way: the only
// failures without an answer are a passed deadline and the end of the connection.
//
// Thread-safe.
class DirectConnection final : public Connection {
 public:
  // `service` owns `operations`. Operations that have begun keep it, also after the end of the
  // connection.
  DirectConnection(std::shared_ptr<void> service, Operations& operations);
  // As Connection requires, and does not wait for the store: operations that it is deciding are
  // decided, and their answers discarded.
  ~DirectConnection() override;

  void Send(AnyConnectionCall call, Deadline deadline) override;

 private:
  class Calls;
  template <typename Request, typename Response>
  void Begin(ConnectionCall<Request, Response> call, Deadline deadline);

  Operations& operations_;
  // Operations outlive the connection.
  const std::shared_ptr<Calls> calls_;
  DeadlineTimer timer_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_EMBEDDED_DIRECT_CONNECTION_H_
