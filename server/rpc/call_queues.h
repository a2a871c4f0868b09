#ifndef IDEMPOTENCY_SERVER_RPC_CALL_QUEUES_H_
#define IDEMPOTENCY_SERVER_RPC_CALL_QUEUES_H_

#include <grpcpp/server_builder.h>

#include <memory>
#include <optional>
#include <vector>

#include "server/rpc/borrowed_queues.h"
#include "server/rpc/call_table.h"
#include "server/rpc/event_loop.h"
#include "server/rpc/queued_calls.h"
#include "server/rpc/queued_methods.h"

namespace idempotency::internal {

// The completion queues of a server, each with a thread that waits for the network and runs the
// reactions of the queue's calls, which do not block.
//
// Not thread-safe. Outlives the server.
class CallQueues {
 public:
  // Adds queues to a server that is being built.
  explicit CallQueues(grpc::ServerBuilder& builder);
  // The same, with the queues and threads of `other`, which need not outlive this. If gRPC cannot
  // share them (BorrowedQueues::Possible()), with queues of its own.
  CallQueues(grpc::ServerBuilder& builder, const CallQueues& other);
  // Joins the threads, but those that are shared still.
  ~CallQueues();
  CallQueues(const CallQueues&) = delete;
  CallQueues& operator=(const CallQueues&) = delete;

  // Serves `methods`, with as many calls as `table` admits. Both outlive it. Once the server is
  // started; again for others.
  void Start(const QueuedMethods& methods, CallTable& table);

  // Returns when the last call of this server has ended. After the server's Shutdown(), before it
  // is destroyed.
  void Stop();

  // The number of threads for a process with `cores` cores.
  static int Threads(unsigned int cores);

 private:
  std::vector<std::shared_ptr<EventLoop>> queues_;
  std::optional<BorrowedQueues> borrowed_;
  // The calls of this server. They are destroyed first.
  std::vector<std::unique_ptr<QueuedCalls>> calls_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_CALL_QUEUES_H_
