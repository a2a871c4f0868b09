#ifndef IDEMPOTENCY_SERVER_QUEUE_BATCHER_H_
#define IDEMPOTENCY_SERVER_QUEUE_BATCHER_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tracing/tracer.h"

#include "core/clock.h"
#include "core/mutex.h"
#include "grpc_idempotency/limits.h"
#include "server/observability/observer.h"
#include "server/queue/fair_queue.h"
#include "server/queue/memory_budget.h"
#include "server/queue/session_wait.h"
#include "server/queue/store_span.h"
#include "server/store/store.h"

namespace idempotency::internal {

struct BatcherOptions {
  // Store calls at the same time: one per connection of the store. At least 1.
  int threads = 4;
  // Reservations and reads are refused before completions, releases and
  // extensions are: those end work that was admitted before.
  //
  // Operations that wait for a worker. The latter get a quarter more, and so
  // does a namespace that has less than its share of them.
  std::size_t max_queued = limits::kMaxQueuedOperations;
  // Of budget(): the size of operations from here until they are answered, with the
  // store's replies, and what other parts hold of it. Reservations and reads leave
  // a fifth of it to the others.
  std::size_t max_bytes = limits::kDefaultQueuedBytes;
  // Operations that a worker takes at once.
  std::size_t max_batch = limits::kMaxBatch;
  // While another worker is busy, a free one takes no fewer than these, for
  // `max_linger` from when the other began: operations that arrive meanwhile then
  // share one statement and one commit. In that time a healthy store answers, and
  // the worker that called it takes the gathered operations; a longer call waits
  // for a lock or a disk, and no worker waits for it.
  std::size_t min_batch_size = 20;
  std::chrono::steady_clock::duration max_linger = std::chrono::milliseconds(5);
  const Clock* clock = &Clock::System();
  // Gets a span for each store call with a sampled operation; outlives the batcher. nullptr: none.
  Tracer* tracer = nullptr;
  // The database, as OpenTelemetry's attribute `db.system`.
  std::string_view store_system = "other_sql";
};

// Gathers single operations into the store's batches. While every worker is busy, operations
// queue; a free worker takes the queued operations, completions first, then releases, extensions,
// reservations and reads. Reads, and the operations of the wait room (ReserveForWaiter(),
// GetForWaiter()), have a share of every batch each (kShare), so that no number of reservations
// delays them. The store gets one call per kind of queue, with at most one operation per record.
// Within a kind, namespaces take turns. Completions and reservations go in one call, so that the
// store may have them share a commit. A lone operation goes to the store at once; a few that
// arrive while another batch is at the store wait for its end (BatcherOptions::min_batch_size).
// Relaxed reservations go in a call of their own, and wait for no call but their like.
// A few operations of one kind that find the store idle are begun by the thread that brings them
// (server/store/held_session.h): it sends the statement, and a worker, which waits for the store's
// answer already, gives the answers.
// Operations that the store leaves for its next call, because their replies are too large
// together, return to the queue.
//
// Reservations that queue behind one of the same record, for the same request, go with it: if the
// store answers it with a replay, which was read after they arrived, they get the same. Otherwise
// they return to the queue, to their places.
//
// Every operation is answered exactly once: on a worker's thread or, if it is
// refused, on the caller's before the method returns. Callbacks must not block
// and must not call Close(); one may leave work that blocks to AfterAnswers. Beside the store's
// answers:
//   RESOURCE_EXHAUSTED / OVERLOADED      Too much is queued. Nothing happened;
//                                        carries a retry delay.
//   UNAVAILABLE / STORE_UNAVAILABLE      Closed. Nothing happened.
//   DEADLINE_EXCEEDED / STORE_UNAVAILABLE
//                                        The operation's deadline passed while
//                                        it was queued. Nothing happened.
//   CANCELLED                            The caller of a reservation left while it was
//                                        queued (ReserveCaller). Nothing happened.
// The answers of one call of the store are given within one ResponseBatchScope.
//
// Thread-safe.
class Batcher {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  template <typename Answer>
  using Done = std::function<void(Answer)>;

  // A reservation is returned with its answer, since a waiter for a running
  // attempt sends it again.
  using ReserveDone = std::function<void(absl::StatusOr<Verdict>, ReserveOp)>;

  static constexpr Deadline kNoDeadline = Deadline::max();

  class Group;

  // The caller of a reservation. Must exist until the reservation is answered.
  class ReserveCaller {
   public:
    // Whether it left, for good: a queued reservation of it does not go to the store, where it
    // would take the record for nobody. A caller that repeats the call elsewhere may have its
    // answer already, and a grant that follows the answer holds the record until its lease ends.
    // Called on any thread; must not block.
    virtual bool HasLeft() const = 0;

   protected:
    ~ReserveCaller() = default;
  };

  // `store` and `observer` must outlive this.
  Batcher(Store& store, Observer& observer, const BatcherOptions& options = {});
  // Like Close().
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // Of a sampled operation, its span.
  using Trace = std::optional<TraceContext>;

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

  // Like Reserve() and Get(), for callers that waited in the wait room.
  void ReserveForWaiter(ReserveOp op, Deadline deadline, ReserveDone done,
                        const Trace& trace = std::nullopt, const ReserveCaller* caller = nullptr);
  void GetForWaiter(GetOp op, Done<absl::StatusOr<Record>> done);

  // Queues the operations of a group, which is empty afterwards: together, so
  // that as many as fit go into one batch.
  void Submit(Group& group);

  // The budget of everything held for the callers of this batcher's service.
  MemoryBudget& budget() { return budget_; }
  // The size of a reservation, here or where it waits.
  static std::size_t BytesOf(const ReserveOp& op);

  // Refuses new operations, has the queued ones answered and joins the workers.
  // Returns when the last callback has returned. May be called again.
  void Close();

 private:
  // Where operations queue, and which of them go to the store in one call: in the
  // order in which they leave.
  enum class QueueKind {
    kComplete,
    kRelease,
    kExtend,
    kReserve,
    // Those that wait for no commit (ReserveOp::relaxed): apart, so that no commit delays them.
    kReserveRelaxed,
    kReserveForWaiter,
    kGetForWaiter,
    kGet,
  };
  static constexpr std::size_t kQueueKinds = 8;
  // Operations that the thread which brings them begins: more are a worker's, since that thread has
  // others to take from the network.
  static constexpr std::size_t kMaxBegun = 4;
  // Of a batch, as 1 / kShare: the part that reservations leave to each kind behind them,
  // as far as operations wait there.
  static constexpr std::size_t kShare = 8;

  // An operation in the batcher, of any kind.
  struct Queued {
    Queued(QueueKind its_queue_kind, const RecordId& record, std::size_t weight, Deadline until)
        : queue_kind(its_queue_kind), id(record), bytes(weight), deadline(until) {}
    virtual ~Queued() = default;
    virtual std::string_view name_space() const = 0;
    virtual bool CallerHasLeft() const { return false; }
    // The answer without the store.
    virtual void Refuse(const absl::Status& status) = 0;

    OperationKind kind() const { return KindOf(queue_kind); }
    // Whether it must not go to the store any more.
    bool IsUnwanted(Deadline now) const { return deadline <= now || CallerHasLeft(); }

    const QueueKind queue_kind;
    const RecordId id;
    const std::size_t bytes;
    const Deadline deadline;
    Trace trace;
  };
  using QueuedPtr = std::unique_ptr<Queued>;

  template <typename Op>
  struct QueuedOp;
  struct QueuedReserve;
  class Join;
  template <typename Op, typename Answer>
  struct QueuedWith;
  using QueuedComplete = QueuedWith<CompleteOp, absl::StatusOr<Completion>>;
  using QueuedRelease = QueuedWith<ReleaseOp, absl::Status>;
  using QueuedExtend = QueuedWith<ExtendOp, absl::StatusOr<Extension>>;
  using QueuedGet = QueuedWith<GetOp, absl::StatusOr<Record>>;

  // Real time, for any clock: it bounds how long a thread waits.
  using SteadyTime = std::chrono::steady_clock::time_point;

  // The operations that a worker takes at once, by kind.
  using Batch = std::array<std::vector<QueuedPtr>, kQueueKinds>;

  static OperationKind KindOf(QueueKind queue_kind);
  // The part of a batch that reservations and other kinds in front leave to the kinds
  // behind `queue_kind`.
  std::size_t PromisedBehind(std::size_t queue_kind) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enqueue(QueuedPtr queued, Group* group, const Trace& trace = std::nullopt);
  // Those that are refused stay in `operations`.
  void Push(absl::Span<QueuedPtr> operations) ABSL_LOCKS_EXCLUDED(mutex_);
  // OK if this one may be queued as well.
  absl::Status Admit(const Queued& queued) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasItsShare(std::string_view name_space) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  FairQueue<QueuedPtr>& QueueOf(const Queued& queued) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return queues_[static_cast<std::size_t>(queued.queue_kind)];
  }
  // Whether no operation of another kind is queued.
  bool AllAre(QueueKind queue_kind) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return queues_[static_cast<std::size_t>(queue_kind)].size() == queued_;
  }
  void PushOne(QueuedPtr queued) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Operations of one kind while the store has them.
  template <typename QueuedType>
  struct AtStore;
  struct Worker;
  static std::vector<std::unique_ptr<Worker>> MakeWorkers(int threads);
  // How many workers to wake for operations that have just been queued.
  std::size_t WorkersFor(std::size_t operations) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes so many workers from idle_, as far as there are; the others are those that wait for
  // work_.
  std::vector<const Worker*> TakeIdle(std::size_t workers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake(std::size_t workers, const std::vector<const Worker*>& idle);

  // An idle worker, with what is queued for a call that it is to finish; nullptr if the call is not
  // one to begin. Begin() must follow.
  Worker* TakeToBegin(std::vector<QueuedPtr>& unwanted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Begin(Worker& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  static bool BeginAtStore(Worker& worker);
  // Whether there is a call for the worker to finish.
  bool StopIdling(Worker& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  void FinishBegun(Worker& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  template <typename QueuedType, typename Op, typename Answer>
  void FinishBegun(Worker& worker, AtStore<QueuedType> operations,
                   std::vector<Answer> (Store::*call)(absl::Span<const Op>),
                   std::vector<Answer> (HeldSession::*finish)()) ABSL_LOCKS_EXCLUDED(mutex_);

  void Work(Worker& worker);
  enum class Next { kTaken, kIdle, kClosed };
  // Returns with operations for the store, or with a session to wait for, in idle_.
  Next TakeOrIdle(Worker& worker, Batch& batch, std::vector<QueuedPtr>& unwanted)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Relaxed reservations are gathered among themselves, the others among themselves.
  enum class Lane { kDurable, kRelaxed };
  // When a worker took operations of each lane; SteadyTime::min() while it has none.
  struct Began {
    SteadyTime durable = SteadyTime::min();
    SteadyTime relaxed = SteadyTime::min();
  };
  // When a free worker may take queued operations of a lane: in the past for at once,
  // SteadyTime::max() if none is queued.
  SteadyTime MayTakeAt(Lane lane) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The earlier one.
  SteadyTime MayTakeAt() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Operations whose deadline has passed, or whose caller has left, go into `unwanted` instead, and
  // take no place of a record or a namespace. The worker takes the remaining operations later: more
  // than a batch may hold, and second operations of a record, which in another
  // worker's batch would wait for the first one's row, and delay all of that batch. Notes in
  // `began` which lanes it takes from.
  Batch Take(Began& began, std::vector<QueuedPtr>& unwanted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run(Batch batch);
  // Those that may go to the store when their turn comes, since calls for other kinds of the same
  // batch may take long. The others are answered.
  std::vector<QueuedPtr> StillWanted(std::vector<QueuedPtr> taken) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether work that follows its answers may hold this worker (core/after_answers.h): it delays
  // no other answer of the batch, and other workers are there for the next one.
  bool MayBeHeld(const Batch& batch) const;
  template <typename QueuedType>
  AtStore<QueuedType> ToStore(std::vector<QueuedPtr> taken);
  void RunTogether(AtStore<QueuedComplete> completions, AtStore<QueuedReserve> reservations);
  template <typename QueuedType, typename Op, typename Answer>
  void RunKind(AtStore<QueuedType> operations,
               std::vector<Answer> (Store::*call)(absl::Span<const Op>));
  // With the answers of a call of the store that began at `start`.
  template <typename QueuedType, typename Answer>
  void End(AtStore<QueuedType> operations, std::vector<Answer> answers, Deadline start);
  // With the operations that the store has.
  static void AddToSpan(const std::vector<QueuedPtr>& operations, StoreSpan& span);
  template <typename QueuedType, typename Answer>
  void Respond(AtStore<QueuedType> operations, std::vector<Answer> answers, absl::Duration took);
  // Reservations that went with one that was answered.
  void RespondToFollowers(std::vector<QueuedPtr> followers, const absl::StatusOr<Verdict>& answer);
  // In front of later ones of their records, or those could overtake them each time while the
  // store fails. Also if there is no room: they were admitted before.
  void PutBack(std::vector<QueuedPtr> operations) ABSL_LOCKS_EXCLUDED(mutex_);
  void AnswerUnwanted(const std::vector<QueuedPtr>& unwanted);

  Store& store_;
  Observer& observer_;
  const BatcherOptions options_;

  MemoryBudget budget_;

  Mutex mutex_;
  CondVar work_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::size_t queued_ ABSL_GUARDED_BY(mutex_) = 0;
  std::array<FairQueue<QueuedPtr>, kQueueKinds> queues_ ABSL_GUARDED_BY(mutex_);
  // Workers that wait for their sessions; the last one to come is the first to go, so that under a
  // light load it is one thread that works, and one connection.
  std::vector<Worker*> idle_ ABSL_GUARDED_BY(mutex_);
  // A call that was being begun for a worker has begun, or could not.
  CondVar begun_;
  // A free worker waits until the queue may be taken; the others wait for a
  // notification, or for their sessions.
  bool one_lingers_ ABSL_GUARDED_BY(mutex_) = false;

  // Never changes.
  const std::vector<std::unique_ptr<Worker>> workers_;
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
