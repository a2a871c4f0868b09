#ifndef IDEMPOTENCY_SERVER_QUEUE_HELD_CALL_H_
#define IDEMPOTENCY_SERVER_QUEUE_HELD_CALL_H_

#include <variant>
#include <vector>

#include "grpc_idempotency/deadline.h"
#include "server/queue/queued_operation.h"
#include "server/queue/store_call.h"
#include "server/store/held_connection.h"
#include "server/store/record_operations.h"

namespace idempotency::internal {

// A call of the store through a held connection (server/store/held_connection.h): one thread begins
// it, and another one, which holds the connection, finishes it. Begin() is called once, then either
// Finish() or, if it did not begin, Run().
//
// Not thread-safe: it belongs to one thread at a time. Moving it leaves the operations where the
// connection reads them.
class HeldCall {
 public:
  // Whether operations of this queue may go to the store in this way.
  static bool IsFor(QueueKind queue);

  // `operations`: at least one, of a queue for which IsFor() is true.
  HeldCall(QueueKind queue, std::vector<QueuedPtr> operations);

  // Sends the call at `now`, and does not wait. False if it did not begin: nothing happened.
  bool Begin(HeldConnection& connection, SteadyTime now);
  bool begun() const { return begun_; }
  SteadyTime started_at() const { return started_at_; }

  // Receives the answers of a call that began. Blocks.
  void Finish(HeldConnection& connection);

  using Typed = std::variant<StoreCall<ReserveOp>, StoreCall<CompleteOp>>;
  // For its answers, or for a call that did not begin.
  Typed Take() && { return std::move(call_); }

 private:
  Typed call_;
  SteadyTime started_at_;
  bool begun_ = false;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_HELD_CALL_H_
