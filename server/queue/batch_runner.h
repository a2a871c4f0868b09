#ifndef IDEMPOTENCY_SERVER_QUEUE_BATCH_RUNNER_H_
#define IDEMPOTENCY_SERVER_QUEUE_BATCH_RUNNER_H_

#include <cstddef>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/clock.h"
#include "grpc_idempotency/deadline.h"
#include "server/observability/observer.h"
#include "server/queue/held_call.h"
#include "server/queue/memory_budget.h"
#include "server/queue/queued_operation.h"
#include "server/queue/store_call.h"
#include "server/store/record_store.h"
#include "tracing/tracer.h"

namespace idempotency::internal {

// Takes batches to the store, and delivers its answers: to the metrics, to the span of the call,
// and, within one AnswerBatchScope for each call, to the callers.
//
// Some operations return to the queue in place of an answer: those that the store leaves for its
// next call, because their replies are too large together, and the followers of a reservation
// whose answer they cannot share.
//
// Thread-safe. Run() and Deliver() block in the store and in callbacks of callers.
class BatchRunner {
 public:
  struct Options {
    const Clock* clock = &Clock::System();
    // See BatcherOptions.
    Tracer* tracer = nullptr;
    std::string_view store_system = "other_sql";
  };
  // Returns operations to their places in the queue. Called on the thread of any method.
  using PutBack = std::function<void(std::vector<QueuedPtr>)>;

  // The references must outlive this.
  BatchRunner(RecordStore& store, Observer& observer, MemoryBudget& budget, const Options& options,
              PutBack put_back)
      : store_(store),
        observer_(observer),
        budget_(budget),
        options_(options),
        put_back_(std::move(put_back)) {}

  // Calls the store for each queue of the batch, and delivers the answers.
  void Run(OperationBatch batch);
  // The same for a call that did not begin through its connection.
  void Run(HeldCall call);
  // Delivers the answers of a call that was finished through its connection.
  void Deliver(HeldCall call);

  // Answers operations whose deadline passed, or whose caller left, while they were queued.
  void AnswerUnwanted(std::vector<QueuedPtr> unwanted);

 private:
  // The operations that may go to the store when their turn comes, since calls for other kinds of
  // the same batch may take long. The others are answered.
  std::vector<QueuedPtr> StillWanted(std::vector<QueuedPtr> taken);
  template <typename Op>
  StoreCall<Op> CallFor(OperationBatch& batch, QueueKind queue);
  template <typename Op>
  void Run(StoreCall<Op> call);
  // In one call, so that the store may have them share a commit.
  void RunTogether(StoreCall<CompleteOp> completions, StoreCall<ReserveOp> reservations);

  // Ends a call of the store that began at `start`, of one kind of operation or of two.
  template <typename... Op>
  void End(SteadyTime start, StoreCall<Op>... calls);
  template <typename... Op>
  void RecordSpan(absl::Duration took, const StoreCall<Op>&... calls);
  template <typename Op>
  void AnswerAll(StoreCall<Op> call, absl::Duration took);
  template <typename Op>
  void AnswerFollowers(std::vector<QueuedPtr> followers,
                       const typename StoreMethod<Op>::Answer& answer);
  template <typename Op>
  void AnswerOne(QueuedPtr queued, typename StoreMethod<Op>::Answer answer,
                 std::size_t reply_bytes);

  RecordStore& store_;
  Observer& observer_;
  MemoryBudget& budget_;
  const Options options_;
  const PutBack put_back_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_BATCH_RUNNER_H_
