#include "server/batcher.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "core/errors.h"

namespace idempotency {
namespace {

// How soon a refused caller should come back: a full queue of 16 Ki operations
// is half a second of work for a healthy store.
constexpr absl::Duration kOverloadedRetryDelay = absl::Milliseconds(500);
// The time that another replica, or this one after its restart, needs to take
// over.
constexpr absl::Duration kClosedRetryDelay = absl::Seconds(1);

absl::Status Overloaded() {
  return MakeError(Reason::kOverloaded,
                   "Too many operations are queued. Nothing was done; try again later.",
                   {kOverloadedRetryDelay, {}, {}});
}

absl::Status Closed() {
  return MakeError(Reason::kStoreUnavailable,
                   "The service is shutting down. Nothing was done; try again.",
                   {kClosedRetryDelay, {}, {}});
}

absl::Status Overdue() {
  return MakeError(Reason::kStoreUnavailable,
                   "The call's deadline passed while it was queued. Nothing was done; try again.",
                   {kOverloadedRetryDelay, {}, {}});
}

// Completions, releases and extensions get a quarter more.
std::size_t WithReserve(std::size_t max_queued) { return max_queued + max_queued / 4; }

// Tells what an answer means for the numbers.
void Observe(Observer& observer, OperationKind kind, const absl::Status& status) {
  if (status.ok()) return;
  const std::optional<Reason> reason = ReasonOf(status);
  if (reason == Reason::kReservationLost) {
    observer.ReservationLost(kind);
  } else if (!reason.has_value() || reason == Reason::kStoreUnavailable ||
             reason == Reason::kRecordDamaged || reason == Reason::kRecordIdCollision) {
    observer.StoreFailed(kind, status);
  }
}

void Observe(Observer& observer, OperationKind kind, const absl::StatusOr<Verdict>& answer) {
  if (!answer.ok()) return Observe(observer, kind, answer.status());
  const Reserved* const reserved = std::get_if<Reserved>(&*answer);
  if (reserved == nullptr) return;
  if (reserved->took_over) observer.TookOver();
  if (reserved->after_expiry) observer.RetriedAfterExpiry();
  if (reserved->repeated) observer.GrantRepeated();
}

void Observe(Observer& observer, OperationKind kind, const absl::StatusOr<Completion>& answer) {
  if (!answer.ok()) return Observe(observer, kind, answer.status());
  if (answer->lease_overrun && !answer->repeated) observer.LeaseOverrun();
}

template <typename T>
void Observe(Observer& observer, OperationKind kind, const absl::StatusOr<T>& answer) {
  Observe(observer, kind, answer.status());
}

}  // namespace

Batcher::Batcher(Store& store, Observer& observer, const BatcherOptions& options)
    : store_(store), observer_(observer), options_(options) {
  MutexLock lock(join_mutex_);
  for (int worker = 0; worker < std::max(1, options_.threads); ++worker) {
    workers_.emplace_back([this, worker] { Work(worker); });
  }
}

Batcher::~Batcher() { Close(); }

void Batcher::Reserve(ReserveOp op, Deadline deadline, Done<absl::StatusOr<Verdict>> done) {
  Submit(OperationKind::kReserve, options_.max_queued, &Batcher::reserves_,
         QueuedReserve{std::move(op), deadline, std::move(done)});
}

void Batcher::Complete(CompleteOp op, Deadline deadline, Done<absl::StatusOr<Completion>> done) {
  Submit(OperationKind::kComplete, WithReserve(options_.max_queued), &Batcher::completes_,
         QueuedComplete{std::move(op), deadline, std::move(done)});
}

void Batcher::Release(ReleaseOp op, Deadline deadline, Done<absl::Status> done) {
  Submit(OperationKind::kRelease, WithReserve(options_.max_queued), &Batcher::releases_,
         QueuedRelease{std::move(op), deadline, std::move(done)});
}

void Batcher::Extend(ExtendOp op, Deadline deadline, Done<absl::StatusOr<Extension>> done) {
  Submit(OperationKind::kExtend, WithReserve(options_.max_queued), &Batcher::extends_,
         QueuedExtend{std::move(op), deadline, std::move(done)});
}

void Batcher::Get(GetOp op, Deadline deadline, Done<absl::StatusOr<Record>> done) {
  Submit(OperationKind::kGet, options_.max_queued, &Batcher::gets_,
         QueuedGet{std::move(op), deadline, std::move(done)});
}

template <typename Op, typename Answer>
void Batcher::Submit(OperationKind kind, std::size_t limit,
                     RecordQueue<Queued<Op, Answer>> Batcher::*queue, Queued<Op, Answer> queued) {
  const RecordId id = queued.op.id;
  absl::Status admitted;
  {
    MutexLock lock(mutex_);
    admitted = Admit(limit);
    if (admitted.ok()) {
      (this->*queue).Push(id, std::move(queued));
      ++queued_;
      observer_.QueueDepthChanged(queued_);
    }
  }
  if (admitted.ok()) {
    work_.NotifyOne();
    return;
  }
  if (ReasonOf(admitted) == Reason::kOverloaded) observer_.OperationShed(kind);
  // Only what was admitted has moved on. NOLINTNEXTLINE(bugprone-use-after-move)
  queued.done(admitted);
}

absl::Status Batcher::Admit(std::size_t limit) {
  if (closed_) return Closed();
  if (queued_ >= limit) return Overloaded();
  return absl::OkStatus();
}

void Batcher::Work(int worker) {
  pthread_setname_np(pthread_self(), absl::StrCat("batcher-", worker).c_str());
  for (;;) {
    Batch batch;
    {
      MutexLock lock(mutex_);
      while (queued_ == 0 && !closed_) work_.Wait(lock);
      if (queued_ == 0) return;
      batch = Take();
      observer_.QueueDepthChanged(queued_);
    }
    Run(std::move(batch));
  }
}

Batcher::Batch Batcher::Take() {
  std::size_t room = options_.max_batch;
  const auto take = [&room](auto& queue) {
    auto taken = queue.Take(room);
    room -= taken.size();
    return taken;
  };
  Batch batch;
  batch.completes = take(completes_);
  batch.releases = take(releases_);
  batch.extends = take(extends_);
  batch.reserves = take(reserves_);
  batch.gets = take(gets_);
  queued_ -= options_.max_batch - room;
  return batch;
}

void Batcher::Run(Batch batch) {
  RunKind(OperationKind::kComplete, std::move(batch.completes), &Store::Complete);
  RunKind(OperationKind::kRelease, std::move(batch.releases), &Store::Release);
  RunKind(OperationKind::kExtend, std::move(batch.extends), &Store::Extend);
  RunKind(OperationKind::kReserve, std::move(batch.reserves), &Store::Reserve);
  RunKind(OperationKind::kGet, std::move(batch.gets), &Store::Get);
}

template <typename Op, typename Answer>
void Batcher::RunKind(OperationKind kind, std::vector<Queued<Op, Answer>> taken,
                      std::vector<Answer> (Store::*call)(absl::Span<const Op>)) {
  AnswerOverdue(kind, taken);
  if (taken.empty()) return;
  std::vector<Op> ops;
  ops.reserve(taken.size());
  for (Queued<Op, Answer>& queued : taken) ops.push_back(std::move(queued.op));

  const Deadline start = options_.clock->Monotonic();
  std::vector<Answer> answers = (store_.*call)(ops);
  // A store that does not answer every operation is broken, and guessing which
  // answer belongs to whom could grant twice.
  if (answers.size() != taken.size()) std::abort();
  observer_.BatchDone(kind, taken.size(), absl::FromChrono(options_.clock->Monotonic() - start));
  for (std::size_t i = 0; i < taken.size(); ++i) {
    Observe(observer_, kind, answers[i]);
    taken[i].done(std::move(answers[i]));
  }
}

template <typename Op, typename Answer>
void Batcher::AnswerOverdue(OperationKind kind, std::vector<Queued<Op, Answer>>& taken) {
  const Deadline now = options_.clock->Monotonic();
  const auto overdue = std::stable_partition(
      taken.begin(), taken.end(),
      [now](const Queued<Op, Answer>& queued) { return queued.deadline > now; });
  for (auto queued = overdue; queued != taken.end(); ++queued) {
    observer_.OperationOverdue(kind);
    queued->done(Overdue());
  }
  taken.erase(overdue, taken.end());
}

void Batcher::Close() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
  }
  work_.NotifyAll();
  MutexLock lock(join_mutex_);
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

}  // namespace idempotency
