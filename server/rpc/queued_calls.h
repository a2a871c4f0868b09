#ifndef IDEMPOTENCY_SERVER_RPC_QUEUED_CALLS_H_
#define IDEMPOTENCY_SERVER_RPC_QUEUED_CALLS_H_

#include <grpcpp/completion_queue.h>

#include "core/mutex.h"
#include "server/rpc/call_table.h"
#include "server/rpc/queued_methods.h"

namespace idempotency::internal {

// The calls of one server on a completion queue: those that have arrived and those that are
// requested. Their reactors are used as those of the callback API, except that the reactions of one
// call run one after the other: on the thread that takes events from the queue, or on one that
// wrote within InlineWriteScope (server/rpc/inline_write_scope.h).
//
// Thread-safe.
class QueuedCalls {
 public:
  // `queue`, whose events are QueueEvents (server/rpc/event_loop.h), `methods` and `table`
  // outlive it.
  QueuedCalls(grpc::ServerCompletionQueue& queue, const QueuedMethods& methods, CallTable& table)
      : queue_(queue), methods_(methods), table_(table) {}
  // None is left.
  ~QueuedCalls() = default;
  QueuedCalls(const QueuedCalls&) = delete;
  QueuedCalls& operator=(const QueuedCalls&) = delete;

  // Requests `of_each_method` calls of each method; one that arrives is replaced by another. Once
  // the server is started.
  void Request(int of_each_method);

  // Returns when every call has ended. The server is being shut down: no further call arrives.
  void AwaitEnd() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Counted;
  template <typename Kind, typename Side, typename Method, typename Reactor>
  class CallOnQueue;
  class UnaryCallOnQueue;
  class ServerStreamOnQueue;
  class BidiStreamOnQueue;

  grpc::ServerCompletionQueue& queue_;
  const QueuedMethods& methods_;
  CallTable& table_;
  Mutex mutex_;
  CondVar ended_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_QUEUED_CALLS_H_
