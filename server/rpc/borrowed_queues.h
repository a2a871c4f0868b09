#ifndef IDEMPOTENCY_SERVER_RPC_BORROWED_QUEUES_H_
#define IDEMPOTENCY_SERVER_RPC_BORROWED_QUEUES_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <vector>

#include "server/rpc/event_loop.h"

namespace idempotency::internal {

// Completion queues that belong to one server, and on which the calls of another one arrive too: a
// second thread that polls costs each of them several switches
// (docs/adr/0048-fewer-hand-overs.md). gRPC's core has this, its C++ interface has not: it adds the
// queues that a builder has made, and no others. The one place in which it passes the core's server
// on, before that is started, is the interface of credentials.
//
// Not thread-safe. Destroyed after the Shutdown() of the server that borrows, and before that
// server is.
class BorrowedQueues {
 public:
  using Queues = std::vector<std::shared_ptr<EventLoop>>;

  // Whether this gRPC can, in this process: its poller watches the connections of all servers
  // together, and the interface is the one that this was written for.
  static bool Possible();

  BorrowedQueues(grpc::ServerBuilder& builder, const Queues& queues);
  ~BorrowedQueues();
  BorrowedQueues(const BorrowedQueues&) = delete;
  BorrowedQueues& operator=(const BorrowedQueues&) = delete;

 private:
  // No call arrives on it. A server needs a queue that its builder has made, or the threads of its
  // synchronous services (reflection) poll.
  std::unique_ptr<grpc::ServerCompletionQueue> idle_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_BORROWED_QUEUES_H_
