#ifndef IDEMPOTENCY_SERVER_RPC_CALL_QUEUES_H_
#define IDEMPOTENCY_SERVER_RPC_CALL_QUEUES_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <thread>
#include <vector>

#include "server/rpc/queued_calls.h"
#include "server/rpc/queued_methods.h"

namespace idempotency::internal {

// The completion queues of a server, each with a thread that waits for the network and runs the
// reactions of the queue's calls, which do not block.
//
// Not thread-safe. Outlives the server.
class CallQueues {
 public:
  // Adds the queues to a server that is being built.
  explicit CallQueues(grpc::ServerBuilder& builder);
  // Joins the threads.
  ~CallQueues();
  CallQueues(const CallQueues&) = delete;
  CallQueues& operator=(const CallQueues&) = delete;

  // Serves `methods`, which outlive it. Once the server is started.
  void Start(const QueuedMethods& methods);

  // Returns when the last call has ended. After the server's Shutdown(), before it is destroyed.
  void Stop();

  // For a process that may use so many cores.
  static int Threads(unsigned int cores);

 private:
  // The calls are destroyed first.
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::vector<std::unique_ptr<QueuedCalls>> calls_;
  std::vector<std::thread> threads_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_CALL_QUEUES_H_
