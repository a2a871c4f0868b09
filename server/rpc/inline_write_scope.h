#ifndef IDEMPOTENCY_SERVER_RPC_INLINE_WRITE_SCOPE_H_
#define IDEMPOTENCY_SERVER_RPC_INLINE_WRITE_SCOPE_H_

#include <grpcpp/completion_queue.h>

#include <deque>
#include <utility>

#include "absl/functional/function_ref.h"

namespace idempotency::internal {

// A scope on a thread that begins writes of calls on completion queues. A write that the socket
// takes at once has ended when it returns; its reaction then runs on this thread, at the end of the
// scope, and does not wake the queue's thread for it.
//
// A scope within another one does nothing: the outer one applies. Holds no lock. Not thread-safe.
class InlineWriteScope {
 public:
  InlineWriteScope();
  // Runs the reactions, and those of the writes that they begin.
  ~InlineWriteScope();
  InlineWriteScope(const InlineWriteScope&) = delete;
  InlineWriteScope& operator=(const InlineWriteScope&) = delete;

  // Calls `write`, which begins one write of a call on `queue`, whose tags are QueueEvents
  // (server/rpc/event_loop.h).
  static void Begin(grpc::CompletionQueue& queue, absl::FunctionRef<void()> write);

 private:
  const bool outermost_;
  // Tags, and whether they succeeded.
  std::deque<std::pair<void*, bool>> ended_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_INLINE_WRITE_SCOPE_H_
