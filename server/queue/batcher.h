#ifndef IDEMPOTENCY_SERVER_QUEUE_BATCHER_H_
#define IDEMPOTENCY_SERVER_QUEUE_BATCHER_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "core/clock.h"
#include "core/mutex.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/limits.h"
#include "server/observability/observer.h"
#include "server/queue/batch_runner.h"
#include "server/queue/connection_wait.h"
#include "server/queue/held_call.h"
#include "server/queue/memory_budget.h"
#include "server/queue/operation_queues.h"
#include "server/queue/queued_operation.h"
#include "server/store/limits.h"
#include "server/store/record_store.h"
#include "tracing/tracer.h"

namespace idempotency::internal {

struct BatcherOptions {
  // Store calls at the same time: one per connection of the store. At least 1.
  int threads = 4;
  // Reservations and reads are refused before completions, releases and
  // extensions are: those end work that was admitted before.
  //
  // Operations that wait for a worker. The latter get an eighth more, and a
  // namespace that has less than its share of them a quarter more.
  std::size_t max_queued = limits::kMaxQueuedOperations;
  // The bytes that budget() may hold: the size of operations from here until they are answered,
  // with the store's replies, and the holds of other parts. Reservations and reads leave a fifth of
  // it to the others.
  std::size_t max_bytes = limits::kDefaultQueuedBytes;
  // Operations that a worker takes at once.
  std::size_t max_batch = limits::kMaxBatch;
  // While another worker is busy, a free one takes no fewer than these, for
  // `max_linger` from when the other began: operations that arrive meanwhile then
  // share one statement and one commit (docs/adr/0015). Without it, with 8 and 16 calls in flight,
  // each took 5 to 14 % more processor time (docs/adr/0048).
  std::size_t min_batch_size = 20;
  // In that time a healthy store answers, and the worker that called it takes the gathered
  // operations. A longer call waits for a lock or a disk, and no worker waits for it.
  std::chrono::steady_clock::duration max_linger = std::chrono::milliseconds(5);
  const Clock* clock = &Clock::System();
  // Gets a span for each store call with a sampled operation; outlives the batcher. nullptr: none.
  Tracer* tracer = nullptr;
  // The database, as OpenTelemetry's attribute `db.system`.
  std::string_view store_system = "other_sql";
};

// Gathers single operations into the store's batches. Its parts:
//
//   OperationQueues   which operations are admitted, and which leave next
//   the workers       threads, one for each connection of the store: when a batch leaves
//   BatchRunner       the store call of a batch, and the delivery of its answers
//   HeldCall          the same for a few operations that the thread which brings them begins
//
// Linger. A lone operation goes to the store at once. While other batches are at the store, a few
// operations wait for the end of a call (BatcherOptions::min_batch_size). Relaxed reservations wait
// for no call but their like.
//
// Held connections. An idle worker holds a connection of the store
// (server/store/held_connection.h), and waits for its socket. If a thread brings a few operations
// of one kind while the store is idle, it sends their statement through that connection. The worker
// then waits for the store's answer already, so no thread is woken only to send.
//
// Answers. Every operation is answered exactly once: on a worker's thread or, if it is
// refused, on the caller's before the method returns. Callbacks must not block
// and must not call Close(); one may leave work that blocks to AfterAnswers. In addition to the
// store's answers:
//   RESOURCE_EXHAUSTED / OVERLOADED      Too much is queued. Nothing happened;
//                                        carries a retry delay.
//   UNAVAILABLE / STORE_UNAVAILABLE      Closed. Nothing happened.
//   DEADLINE_EXCEEDED / STORE_UNAVAILABLE
//                                        The operation's deadline passed while
//                                        it was queued. Nothing happened.
//   CANCELLED                            The caller of a reservation left while it was
//                                        queued (ReserveCaller). Nothing happened.
//
// Thread-safe.
class Batcher {
 public:
  using Deadline = SteadyTime;
  template <typename Answer>
  using Done = std::function<void(Answer)>;
  using ReserveDone = StoreMethod<ReserveOp>::Done;
  using ReserveCaller = internal::ReserveCaller;
  // The span of a sampled operation.
  using Trace = std::optional<TraceContext>;

  static constexpr Deadline kNoDeadline = Deadline::max();

  class Group;

  // `store` and `observer` must outlive this.
  Batcher(RecordStore& store, Observer& observer, const BatcherOptions& options = {});
  // Like Close().
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // With a group, the operation waits in it for Submit(). Without a `caller`, it never leaves.
  void Reserve(ReserveOp op, Deadline deadline, ReserveDone done, Group* group = nullptr,
               const Trace& trace = std::nullopt, const ReserveCaller* caller = nullptr);
  void Complete(CompleteOp op, Deadline deadline, Done<absl::StatusOr<Completion>> done,
                Group* group = nullptr, const Trace& trace = std::nullopt);
  void Release(ReleaseOp op, Deadline deadline, Done<absl::Status> done, Group* group = nullptr,
               const Trace& trace = std::nullopt);
  void Extend(ExtendOp op, Deadline deadline, Done<absl::StatusOr<Extension>> done,
              Group* group = nullptr, const Trace& trace = std::nullopt);
  void Get(GetOp op, Deadline deadline, Done<absl::StatusOr<Record>> done, Group* group = nullptr,
           const Trace& trace = std::nullopt);

  // The store's comparison of a record that it answered with a request; never waits.
  FingerprintMatch MatchRequest(const Record& record, const ReserveOp& op) const {
    return store_.MatchRequest(record, op);
  }

  // Like Reserve() and Get(), for in-flight waiters.
  void ReserveForWaiter(ReserveOp op, Deadline deadline, ReserveDone done,
                        const Trace& trace = std::nullopt, const ReserveCaller* caller = nullptr);
  void GetForWaiter(GetOp op, Done<absl::StatusOr<Record>> done);

  // Queues the operations of a group, which is empty afterwards: together, so
  // that as many as fit go into one batch.
  void Submit(Group& group);

  // The budget of everything held for the callers of this batcher's service.
  MemoryBudget& budget() { return budget_; }
  // The size of a reservation, here or where it waits.
  static std::size_t BytesOf(const ReserveOp& op) { return WeightOf(op); }

  // Refuses new operations, has the queued ones answered and joins the workers.
  // Returns when the last callback has returned. May be called again.
  void Close();

 private:
  // Operations that the thread which brings them begins: more are a worker's, since that thread has
  // others to take from the network.
  static constexpr std::size_t kMaxBegun = 4;

  // A thread and its connection. Another thread uses `wait` as the hand-over permits.
  struct Worker {
    explicit Worker(std::size_t its_number) : number(its_number) {}

    const std::size_t number;
    ConnectionWait wait;
  };

  // When a worker took operations of each lane; SteadyTime::min() while it has none.
  struct Began {
    SteadyTime durable = SteadyTime::min();
    SteadyTime relaxed = SteadyTime::min();
  };

  // The state of one worker that other threads read and write.
  //
  // The hand-over of a call. A worker in idle_ waits for the connection that it holds. The thread
  // that takes it out of idle_ and sets `is_being_handed_a_call` owns the connection until it
  // resets that, under the lock and in the same step as it puts the call into `handed_over`.
  // Meanwhile the worker stays in ConnectionWait::Await(), or behind it in StopIdling(), which
  // waits for the reset and takes the call out. From then on call and connection are the worker's.
  // So at any time one thread owns each of them, and they change hands under the lock only.
  struct WorkerState {
    Began began;
    bool is_being_handed_a_call = false;
    std::optional<HeldCall> handed_over;
  };

  // A call that the current thread is to begin for an idle worker.
  struct CallToBegin {
    Worker* worker;
    HeldCall call;
  };

  static std::vector<std::unique_ptr<Worker>> MakeWorkers(int threads);

  template <typename Op>
  void Enqueue(QueueKind queue, Op op, Deadline deadline, typename StoreMethod<Op>::Done done,
               Group* group, const Trace& trace, const ReserveCaller* caller = nullptr);
  // Refused ones stay in `operations`.
  void Push(absl::Span<QueuedPtr> operations) ABSL_LOCKS_EXCLUDED(mutex_);
  // For the runner.
  void PutBack(std::vector<QueuedPtr> operations) ABSL_LOCKS_EXCLUDED(mutex_);

  // When a free worker may take queued operations of a lane: in the past for at once,
  // SteadyTime::max() if none is queued. Real time, for any clock: it bounds how long a thread
  // waits.
  SteadyTime MayTakeAt(Lane lane) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The earlier one.
  SteadyTime MayTakeAt() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next batch, of the lanes that may be taken from now; notes them in `began`.
  OperationBatch Take(Began& began, std::vector<QueuedPtr>& unwanted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // How many workers to wake for operations that have just been queued.
  std::size_t WorkersFor(std::size_t operations) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes `workers` workers from idle_, or all if it has fewer; the others wait for work_.
  std::vector<const Worker*> TakeIdle(std::size_t workers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake(std::size_t workers, const std::vector<const Worker*>& idle);
  // Wakes a worker for operations that were too large for the batch that has just been taken.
  void WakeForLarge() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Wakes a worker to linger for a lane, if it has operations and the worker that lingered for both
  // lanes took the other one's.
  void WakeForLane(Lane lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // If what is queued is a call that this thread begins, takes it out of the queue. BeginCall()
  // must follow.
  std::optional<CallToBegin> TakeToBegin(std::vector<QueuedPtr>& unwanted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BeginCall(CallToBegin to_begin) ABSL_LOCKS_EXCLUDED(mutex_);
  // The call that was handed to the worker, if there is one.
  std::optional<HeldCall> StopIdling(Worker& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  void FinishCall(Worker& worker, HeldCall call) ABSL_LOCKS_EXCLUDED(mutex_);

  void Work(Worker& worker);
  enum class Wait {
    // Operations may be taken.
    kReady,
    // None may. The worker holds a connection, which it is to wait for.
    kIdle,
    // None may. The worker is to hold a connection, which takes time, and to look again.
    kHoldFirst,
    kClosed,
  };
  // Returns kHoldFirst only with `may_hold`. Without it a worker that holds no connection waits for
  // work_.
  Wait WaitForWork(Worker& worker, bool may_hold, MutexLock& lock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  enum class Next { kTaken, kIdle, kClosed };
  // Returns with operations for the store, or with a connection to wait for, in idle_.
  Next TakeOrIdle(Worker& worker, OperationBatch& batch, std::vector<QueuedPtr>& unwanted)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether work that follows its answers may hold this worker (core/after_answers.h): it delays
  // no other answer of the batch, and other workers are there for the next one.
  bool MayBeHeld(const OperationBatch& batch) const {
    return options_.threads > 1 && batch.queues() == 1;
  }

  RecordStore& store_;
  Observer& observer_;
  const BatcherOptions options_;

  MemoryBudget budget_;
  BatchRunner runner_;

  // Never changes.
  const std::vector<std::unique_ptr<Worker>> workers_;

  Mutex mutex_;
  CondVar work_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  OperationQueues queues_ ABSL_GUARDED_BY(mutex_);
  // By the workers' numbers.
  std::vector<WorkerState> states_ ABSL_GUARDED_BY(mutex_);
  // Workers that wait for their connections; the last one to come is the first to go, so that under
  // a light load it is one thread that works, and one connection.
  std::vector<Worker*> idle_ ABSL_GUARDED_BY(mutex_);
  // A call was handed over.
  CondVar handed_over_;
  // A free worker waits until the queue may be taken; the others wait for a
  // notification, or for their connections.
  bool one_lingers_ ABSL_GUARDED_BY(mutex_) = false;

  // Held while joining, so that two calls of Close() both wait.
  Mutex join_mutex_;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(join_mutex_);
};

// Operations that go into the queue together. Not thread-safe.
class Batcher::Group {
 public:
  // Has memory for `expected` operations; more may follow.
  explicit Group(std::size_t expected = 0) { operations_.reserve(expected); }
  // It must be empty: every queued operation needs an answer.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

 private:
  friend class Batcher;
  std::vector<QueuedPtr> operations_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_BATCHER_H_
