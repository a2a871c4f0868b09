#ifndef IDEMPOTENCY_SERVER_QUEUE_IN_FLIGHT_WAITERS_H_
#define IDEMPOTENCY_SERVER_QUEUE_IN_FLIGHT_WAITERS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/clock.h"
#include "core/mutex.h"
#include "server/limits.h"
#include "server/observability/observer.h"
#include "server/queue/batcher.h"
#include "server/queue/namespace_shares.h"
#include "server/queue/record_proof.h"
#include "server/queue/record_schedule.h"
#include "server/store/limits.h"
#include "server/store/record_operations.h"

namespace idempotency::internal {

struct InFlightWaitersOptions {
  // Above this, a call that would wait is answered `in_flight` at once, and so is one
  // whose namespace has its share of the places (NamespaceShares), or of the batcher's
  // MemoryBudget.
  std::size_t max_waiters = limits::kMaxWaiters;
  // How often a record with waiters is read, to detect changes by other
  // replicas: the pause grows from the first to the longest, with jitter.
  absl::Duration first_pause = absl::Milliseconds(20);
  absl::Duration longest_pause = absl::Milliseconds(200);
  // Such reads under way at the same time, over all records: one batch.
  std::size_t max_reads = limits::kMaxBatch;
  const Clock* clock = &Clock::System();
};

// Holds each Reserve whose record another attempt holds, without a thread. It
// is examined again when this process changes the record (OnRecordChanged()), when a
// periodic read shows that another replica changed it, and when the running
// attempt's lease is over.
//
// Every waiter is answered at once from what a read proves: a completed record is
// a replay for the same request and a mismatch for another. Such a read is a
// confirmed one (GetOp), so that no waiter gets an answer that a failover
// reverts; the periodic reads, which cost the store no commit, only detect
// whether there is something to confirm. To run, the calls go to the store again,
// one per record at a time: the first one wins and the others wait for it. Others with its request
// token get the same grant: their caller may have lost the connection of the first one.
//
// Thread-safe.
class InFlightWaiters {
 public:
  using Deadline = Batcher::Deadline;
  // By reference: the reply of a record is one for all that waited for it.
  using Done = std::function<void(const absl::StatusOr<Verdict>&)>;

  // One Reserve. Made by NewWaiter(), handed to Start() and Cancel().
  class Waiter;
  using WaiterPtr = std::shared_ptr<Waiter>;

  // `batcher` and `observer` must outlive this.
  InFlightWaiters(Batcher& batcher, Observer& observer, const InFlightWaitersOptions& options = {});
  // Like Close(), and waits until the batcher has answered every call.
  ~InFlightWaiters();
  InFlightWaiters(const InFlightWaiters&) = delete;
  InFlightWaiters& operator=(const InFlightWaiters&) = delete;

  // A call that waits up to `max_wait` from now, and not up to `deadline`: it
  // leaves time to send the answer. `trace` as for the batcher.
  WaiterPtr NewWaiter(ReserveOp op, Deadline deadline, absl::Duration max_wait, Done done,
                      std::optional<TraceContext> trace = std::nullopt);

  // The call's request. Only before Start(), and within its `done`.
  static const ReserveOp& OpOf(const WaiterPtr& waiter);

  // Sends the call to the store, with `group` when that is submitted. Its `done` runs exactly once,
  // on a thread of the batcher, on the timer's, or on that of the caller of any method here; it
  // must not block. The answer is the store's, with these additions:
  //   in_flight   also when the wait is over, at the limit of waiters, and after
  //               Close()
  //   CANCELLED   the call was cancelled before it had an answer, or stopped
  //               waiting
  void Start(const WaiterPtr& waiter, Batcher::Group* group = nullptr);

  // The caller no longer waits, but still accepts the answer: a call that waits
  // is answered CANCELLED and never granted, and one that the store is deciding
  // gets the store's answer at once. No effect on a call that was answered.
  void StopWaiting(const WaiterPtr& waiter);

  // The answer is no longer needed. A call that waits waits no longer, one that is
  // queued does not go to the store, and neither is ever granted. If the store is just granting it,
  // a call without a request token releases the reservation (as OUTCOME_UNKNOWN if it was granted
  // for recovery, else as NOTHING_HAPPENED); one with a request token keeps it, since its caller
  // repeats the call until it has the answer. No effect on a call that was answered.
  void Cancel(const WaiterPtr& waiter);

  // This process completed or released the record: its waiters are examined
  // now.
  void OnRecordChanged(const RecordId& id);

  // Records with waiters or a call in flight for them: no other record is kept.
  std::size_t records() const { return open_records_.load(); }

  // Answers every waiter with `in_flight`, which is still true, and joins the
  // timer. From then on no call waits. May be called again.
  void Close();

 private:
  using WaiterId = std::uint64_t;

  enum class Phase {
    // Waits for a change by this process, for the next periodic read, or for the end of the lease.
    kFollows,
    // An unconfirmed read is under way.
    kReads,
    // A confirmed read is under way.
    kConfirms,
    // One of the waiters was sent to the store again.
    kTries,
  };

  // The entry of one record, which has waiters or is being read for them.
  struct RecordWaiters {
    // In their order of arrival.
    absl::btree_map<WaiterId, WaiterPtr> waiters;
    // The waiters with a request token, by that token.
    absl::btree_set<std::pair<Uuid, WaiterId>> by_token;
    Phase phase = Phase::kFollows;
    // The read that is under way answers the waiters that arrived before it was sent.
    WaiterId read_before = 0;
    // The record changed since the read or the try was sent: read it again.
    bool changed = false;
    RecordSchedule schedule;
    // The grant that a read found, and which proved nothing for any of the waiters. One that came
    // later was compared by the store.
    std::optional<Uuid> compared;
    // Its place in due_; kNoDeadline without one.
    Deadline due = Batcher::kNoDeadline;
  };

  // A waiter that the record answers.
  struct Proved {
    WaiterPtr waiter;
    std::shared_ptr<const Record> record;
    // Found once: a key ring that is replaced meanwhile may no longer prove it.
    RecordProof proof;
  };

  // Actions for after the lock is released: callbacks and the batcher, which
  // may call back at once.
  struct Todo {
    std::vector<std::pair<WaiterPtr, absl::StatusOr<Verdict>>> answers;
    // Their verdicts are made outside the lock, one by one: a reply may be large.
    std::vector<Proved> proved;
    std::vector<WaiterPtr> tries;
    std::vector<GetOp> reads;
  };

  // The batcher's answers.
  void Answered(const WaiterPtr& waiter, absl::StatusOr<Verdict> answer)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void ReadDone(const RecordId& id, absl::StatusOr<Record> record) ABSL_LOCKS_EXCLUDED(mutex_);

  void Do(Todo todo) ABSL_LOCKS_EXCLUDED(mutex_);
  void SendTry(const WaiterPtr& waiter, Batcher::Group* group = nullptr)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void SendRead(GetOp op) ABSL_LOCKS_EXCLUDED(mutex_);
  void GiveBack(const WaiterPtr& waiter, const Reserved& grant) ABSL_LOCKS_EXCLUDED(mutex_);
  void CallbackBegins() { callbacks_.fetch_add(1, std::memory_order_relaxed); }
  // The end of every callback: this must not be used after it.
  void CallbackReturns() ABSL_LOCKS_EXCLUDED(mutex_);
  // If the call waits, ends its wait and answers CANCELLED.
  void AnswerCancelled(const WaiterPtr& waiter, Todo& todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // False if the call does not wait.
  bool Add(const WaiterPtr& waiter, const InFlight& in_flight)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a waiter out of its entry.
  void Remove(RecordWaiters& entry, const WaiterPtr& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Handles the result of a try for the remaining waiters.
  void ApplyVerdict(const Waiter& tried, const absl::StatusOr<Verdict>& answer, Todo& todo)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Handles an unconfirmed read: whether a confirmed one is needed.
  void ApplyUnconfirmedRead(const RecordId& id, RecordWaiters& entry,
                            const absl::StatusOr<Record>& found, Todo& todo)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ProvesAny(const RecordWaiters& entry, const Record& record) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Handles a confirmed read.
  void ApplyRecord(RecordWaiters& entry, std::shared_ptr<const Record> record, Todo& todo)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // If the record proves nothing: the known attempt still runs, or a waiter may run.
  void WaitOrTry(RecordWaiters& entry, const Record& record, Todo& todo)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Handles a failed read.
  void ApplyError(RecordWaiters& entry, const absl::Status& error, Todo& todo)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FollowAttempt(RecordWaiters& entry, const InFlight& in_flight)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TryFirst(RecordWaiters& entry, Todo& todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Try(RecordWaiters& entry, WaiterPtr waiter, Todo& todo)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A waiter with the token of a reservation that was granted: the store repeats the grant to it.
  // nullptr if there is none.
  static WaiterPtr RepetitionOf(const RecordWaiters& entry, const ReserveOp& op);
  // `read`: kReads or kConfirms.
  void ReadNow(const RecordId& id, RecordWaiters& entry, Phase read, Todo& todo)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadLater(RecordWaiters& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Brings due_ up to date after any change of the entry; removes an entry that
  // is no longer needed.
  void UpdateSchedule(const RecordId& id, RecordWaiters& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // in_flight, from this entry's data.
  Verdict StillInFlight(const RecordWaiters& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void RunTimer();
  Deadline NextDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Todo TakeDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Batcher& batcher_;
  Observer& observer_;
  const InFlightWaitersOptions options_;

  Mutex mutex_;
  CondVar timer_wakes_;
  CondVar callbacks_done_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  WaiterId next_waiter_id_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::node_hash_map<RecordId, RecordWaiters> records_ ABSL_GUARDED_BY(mutex_);
  // Every waiter, by the end of its wait. Its size is their number.
  absl::btree_map<std::pair<Deadline, WaiterId>, WaiterPtr> limits_ ABSL_GUARDED_BY(mutex_);
  // Their places, by namespace.
  NamespaceShares shares_ ABSL_GUARDED_BY(mutex_);
  absl::btree_set<std::pair<Deadline, RecordId>> due_ ABSL_GUARDED_BY(mutex_);
  std::size_t reads_ ABSL_GUARDED_BY(mutex_) = 0;
  // Operations that the batcher has not answered. Falls to 0 under the lock only.
  std::atomic<std::size_t> callbacks_{0};
  // The size of records_, for callers that only check whether there is any.
  std::atomic<std::size_t> open_records_{0};
  std::minstd_rand jitter_ ABSL_GUARDED_BY(mutex_);

  // Held while joining, so that two calls of Close() both wait.
  Mutex join_mutex_;
  std::thread timer_ ABSL_GUARDED_BY(join_mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_IN_FLIGHT_WAITERS_H_
