#ifndef IDEMPOTENCY_SERVER_BATCHER_H_
#define IDEMPOTENCY_SERVER_BATCHER_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/clock.h"
#include "core/limits.h"
#include "core/mutex.h"
#include "server/observer.h"
#include "server/record_queue.h"
#include "server/store/store.h"

namespace idempotency {

struct BatcherOptions {
  // Store calls at the same time: one per connection of the store. At least 1.
  int threads = 4;
  // Over this, reservations and reads are refused. Completions, releases and
  // extensions get a quarter more: they end work that was let in before.
  std::size_t max_queued = limits::kMaxQueuedOperations;
  // Operations that a worker takes at once.
  std::size_t max_batch = limits::kMaxBatch;
  const Clock* clock = &Clock::System();
};

// Gathers single operations into the store's batches. While every worker is
// busy, operations queue; a free worker takes what is there, completions first,
// then releases, extensions, reservations and reads, and gives it to the store
// with one call per kind, at most one operation per record in a call. It never
// waits for a batch to fill, so a lone operation goes to the store at once. What
// the store leaves for its next call, because replies weigh too much together,
// goes back into the queue.
//
// Every operation is answered exactly once: on a worker's thread or, if it is
// refused, on the caller's before the method returns. Callbacks must not block
// and must not call Close(). Beside the store's answers:
//   RESOURCE_EXHAUSTED / OVERLOADED      The queue is full. Nothing happened;
//                                        carries a retry delay.
//   UNAVAILABLE / STORE_UNAVAILABLE      Closed, or the operation's deadline
//                                        passed while it was queued. Nothing
//                                        happened.
//
// Thread-safe.
class Batcher {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  template <typename Answer>
  using Done = std::function<void(Answer)>;

  static constexpr Deadline kNoDeadline = Deadline::max();

  // `store` and `observer` must outlive this.
  Batcher(Store& store, Observer& observer, const BatcherOptions& options = {});
  // As Close().
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  void Reserve(ReserveOp op, Deadline deadline, Done<absl::StatusOr<Verdict>> done);
  void Complete(CompleteOp op, Deadline deadline, Done<absl::StatusOr<Completion>> done);
  void Release(ReleaseOp op, Deadline deadline, Done<absl::Status> done);
  void Extend(ExtendOp op, Deadline deadline, Done<absl::StatusOr<Extension>> done);
  void Get(GetOp op, Deadline deadline, Done<absl::StatusOr<Record>> done);

  // Refuses new operations, has the queued ones answered and joins the workers.
  // Returns when the last callback has returned. May be called again.
  void Close();

 private:
  template <typename Op, typename Answer>
  struct Queued {
    Op op;
    Deadline deadline;
    Done<Answer> done;
  };
  using QueuedReserve = Queued<ReserveOp, absl::StatusOr<Verdict>>;
  using QueuedComplete = Queued<CompleteOp, absl::StatusOr<Completion>>;
  using QueuedRelease = Queued<ReleaseOp, absl::Status>;
  using QueuedExtend = Queued<ExtendOp, absl::StatusOr<Extension>>;
  using QueuedGet = Queued<GetOp, absl::StatusOr<Record>>;

  // What a worker takes at once.
  struct Batch {
    std::vector<QueuedComplete> completes;
    std::vector<QueuedRelease> releases;
    std::vector<QueuedExtend> extends;
    std::vector<QueuedReserve> reserves;
    std::vector<QueuedGet> gets;
  };

  template <typename Op, typename Answer>
  void Submit(OperationKind kind, std::size_t limit,
              RecordQueue<Queued<Op, Answer>> Batcher::*queue, Queued<Op, Answer> queued)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // OK if one more operation may be queued.
  absl::Status Admit(std::size_t limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Work(int worker);
  Batch Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run(Batch batch);
  template <typename Op, typename Answer>
  void RunKind(OperationKind kind, std::vector<Queued<Op, Answer>> taken,
               std::vector<Answer> (Store::*call)(absl::Span<const Op>),
               RecordQueue<Queued<Op, Answer>> Batcher::*queue);
  // Whether or not there is room: it was let in before.
  template <typename Op, typename Answer>
  void PutBack(RecordQueue<Queued<Op, Answer>> Batcher::*queue, Queued<Op, Answer> queued)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Answers those whose deadline has passed and leaves the others.
  template <typename Op, typename Answer>
  void AnswerOverdue(OperationKind kind, std::vector<Queued<Op, Answer>>& taken);

  Store& store_;
  Observer& observer_;
  const BatcherOptions options_;

  Mutex mutex_;
  CondVar work_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::size_t queued_ ABSL_GUARDED_BY(mutex_) = 0;
  RecordQueue<QueuedComplete> completes_ ABSL_GUARDED_BY(mutex_);
  RecordQueue<QueuedRelease> releases_ ABSL_GUARDED_BY(mutex_);
  RecordQueue<QueuedExtend> extends_ ABSL_GUARDED_BY(mutex_);
  RecordQueue<QueuedReserve> reserves_ ABSL_GUARDED_BY(mutex_);
  RecordQueue<QueuedGet> gets_ ABSL_GUARDED_BY(mutex_);

  // Held while joining, so that two calls of Close() both wait.
  Mutex join_mutex_;
  std::vector<std::thread> workers_ ABSL_GUARDED_BY(join_mutex_);
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_BATCHER_H_
