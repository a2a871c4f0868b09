#ifndef IDEMPOTENCY_SERVER_QUEUE_STORE_CALL_H_
#define IDEMPOTENCY_SERVER_QUEUE_STORE_CALL_H_

#include <utility>
#include <vector>

#include "server/queue/queued_operation.h"
#include "server/queue/store_method.h"
#include "server/store/record_store.h"

namespace idempotency::internal {

// Operations of one kind while the store has them: a member of each vector for each of them, in
// the same order.
template <typename Op>
struct StoreCall {
  // The store takes the operations out of `taken`.
  explicit StoreCall(std::vector<QueuedPtr> taken) : queued(std::move(taken)) {
    ops.reserve(queued.size());
    for (const QueuedPtr& each : queued) ops.push_back(std::move(QueuedFor<Op>::Of(*each).op));
  }

  bool empty() const { return ops.empty(); }
  // Blocks.
  void Run(RecordStore& store) { answers = StoreMethod<Op>::Call(store, ops); }

  std::vector<QueuedPtr> queued;
  std::vector<Op> ops;
  // Empty until the call is over.
  std::vector<typename StoreMethod<Op>::Answer> answers;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_STORE_CALL_H_
