#include "server/queue/batcher.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "core/after_answers.h"
#include "grpc_idempotency/errors.h"
#include "server/queue/response_batch_scope.h"

namespace idempotency::internal {
namespace {

// The retry delay of a refused caller: a full queue of 16 Ki operations is half
// a second of work for a healthy store.
constexpr absl::Duration kOverloadedRetryDelay = absl::Milliseconds(500);
// The time that another replica, or this one after its restart, needs to take
// over.
constexpr absl::Duration kClosedRetryDelay = absl::Seconds(1);

absl::Status Overloaded() {
  return MakeError(Reason::kOverloaded, "Too much is queued. Nothing was done; try again later.",
                   {kOverloadedRetryDelay, {}, {}});
}

absl::Status Closed() {
  return MakeError(Reason::kStoreUnavailable,
                   "The service is shutting down. Nothing was done; try again.",
                   {kClosedRetryDelay, {}, {}});
}

absl::Status Overdue() {
  return MakeErrorWithCode(
      Reason::kStoreUnavailable, absl::StatusCode::kDeadlineExceeded,
      "The call's deadline passed while it was queued. Nothing was done; try again.",
      {kOverloadedRetryDelay, {}, {}});
}

// The extra limit of completions.
std::size_t WithReserve(std::size_t limit) { return limit + limit / 4; }

// A replay that followers share is copied for each: of larger ones, which the budget counts, each
// caller gets its own.
constexpr std::size_t kMaxSharedReplyBytes = 64 * 1024;

// The size of an operation beside its texts.
constexpr std::size_t kOperationBytes = 1024;

std::size_t WeightOf(const RecordKey& key) {
  return key.name_space.size() + key.scope.size() + key.operation.size() + key.key.size();
}
// One in a map, beside its texts.
constexpr std::size_t kLabelBytes = 96;

std::size_t WeightOf(const ReserveOp& op) { return Batcher::BytesOf(op); }
std::size_t WeightOf(const CompleteOp& op) { return kOperationBytes + op.reply.bytes.size(); }
std::size_t WeightOf(const ReleaseOp& op) { return kOperationBytes + op.reason.size(); }
std::size_t WeightOf(const ExtendOp& op) {
  return kOperationBytes + (op.checkpoint.has_value() ? op.checkpoint->size() : 0);
}
std::size_t WeightOf(const GetOp&) { return kOperationBytes; }

// The reply in an answer: nothing else in one is large.
std::size_t ReplyIn(const absl::StatusOr<Verdict>& answer) {
  const Replay* const replay = answer.ok() ? std::get_if<Replay>(&*answer) : nullptr;
  return replay == nullptr ? 0 : replay->reply.bytes.size();
}
std::size_t ReplyIn(const absl::StatusOr<Record>& answer) {
  return answer.ok() && answer->reply.has_value() ? answer->reply->bytes.size() : 0;
}
template <typename Answer>
std::size_t ReplyIn(const Answer&) {
  return 0;
}

std::string_view NamespaceOf(const GetOp& op) {
  return op.key.has_value() ? std::string_view(op.key->name_space) : std::string_view();
}
template <typename Op>
std::string_view NamespaceOf(const Op& op) {
  return op.key.name_space;
}

// True for an answer that the metrics count as a failure of the store.
bool IsFailure(const absl::Status& status) {
  if (status.ok()) return false;
  const std::optional<Reason> reason = ReasonOf(status);
  return !reason.has_value() || reason == Reason::kStoreUnavailable ||
         reason == Reason::kRecordDamaged || reason == Reason::kRecordIdCollision;
}

// Reports an answer to the metrics.
void Observe(Observer& observer, OperationKind kind, const RecordId& id,
             const absl::Status& status) {
  if (status.ok()) return;
  if (ReasonOf(status) == Reason::kReservationLost) {
    observer.ReservationLost(kind);
  } else if (IsFailure(status)) {
    observer.StoreFailed(kind, id, status);
  }
}

void Observe(Observer& observer, OperationKind kind, const RecordId& id,
             const absl::StatusOr<Verdict>& answer) {
  if (!answer.ok()) return Observe(observer, kind, id, answer.status());
  const Reserved* const reserved = std::get_if<Reserved>(&*answer);
  if (reserved == nullptr) return;
  if (reserved->took_over) observer.TookOver();
  if (reserved->after_expiry) observer.RetriedAfterExpiry();
  if (reserved->repeated) observer.GrantRepeated();
  if (reserved->relaxed) observer.GrantRelaxed();
}

void Observe(Observer& observer, OperationKind kind, const RecordId& id,
             const absl::StatusOr<Completion>& answer) {
  if (!answer.ok()) return Observe(observer, kind, id, answer.status());
  if (answer->lease_overrun && !answer->repeated) observer.LeaseOverrun();
}

template <typename T>
void Observe(Observer& observer, OperationKind kind, const RecordId& id,
             const absl::StatusOr<T>& answer) {
  Observe(observer, kind, id, answer.status());
}

const absl::Status& StatusOf(const absl::Status& answer) { return answer; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& answer) {
  return answer.status();
}

// The first one; OK if there is none.
template <typename Answer>
absl::Status FailureIn(const std::vector<Answer>& answers) {
  for (const Answer& answer : answers) {
    if (IsFailure(StatusOf(answer))) return StatusOf(answer);
  }
  return absl::OkStatus();
}

// See Store.
bool IsLeftForNextCall(const absl::Status& answer) {
  return ReasonOf(answer) == Reason::kOverloaded;
}

template <typename T>
bool IsLeftForNextCall(const absl::StatusOr<T>& answer) {
  return IsLeftForNextCall(answer.status());
}

// With `may_be_held`, work that follows the answers may hold this thread.
template <typename Run>
void RunAndHold(bool may_be_held, Run run) {
  if (!may_be_held) return run();
  const AfterAnswers after;
  run();
}

}  // namespace

// The operation for the store, and the receiver of its answer.
template <typename Op>
struct Batcher::QueuedOp : Queued {
  QueuedOp(QueueKind its_queue_kind, Op&& operation, Deadline until)
      : Queued(its_queue_kind, operation.id, WeightOf(operation), until),
        op(std::move(operation)) {}

  std::string_view name_space() const override { return NamespaceOf(op); }

  Op op;
};

struct Batcher::QueuedReserve final : QueuedOp<ReserveOp> {
  QueuedReserve(QueueKind its_queue_kind, ReserveOp&& operation, Deadline until,
                ReserveDone callback, const ReserveCaller* its_caller)
      : QueuedOp(its_queue_kind, std::move(operation), until),
        done(std::move(callback)),
        caller(its_caller) {}

  bool CallerHasLeft() const override { return caller != nullptr && caller->HasLeft(); }
  void Refuse(const absl::Status& status) override { Respond(status); }
  void Respond(absl::StatusOr<Verdict> answer) { done(std::move(answer), std::move(op)); }

  const ReserveDone done;
  const ReserveCaller* const caller;
  // Reservations of the same record for the same request, which arrived later.
  std::vector<QueuedPtr> followers;
};

// Has a reservation follow the one in front of it. Bounded by the operations of a batch.
class Batcher::Join {
 public:
  explicit Join(std::size_t most) : left_(most) {}

  bool operator()(QueuedPtr& leader, QueuedPtr& behind) const {
    if (left_ == 0 || (leader->queue_kind != QueueKind::kReserve &&
                       leader->queue_kind != QueueKind::kReserveRelaxed)) {
      return false;
    }
    auto& first = static_cast<QueuedReserve&>(*leader);
    const auto& later = static_cast<const QueuedReserve&>(*behind);
    if (!(first.op.key == later.op.key) || first.op.fingerprints != later.op.fingerprints) {
      return false;
    }
    first.followers.push_back(std::move(behind));
    --left_;
    return true;
  }

 private:
  mutable std::size_t left_;
};

template <typename Op, typename Answer>
struct Batcher::QueuedWith final : QueuedOp<Op> {
  QueuedWith(QueueKind its_queue_kind, Op&& operation, Deadline until, Done<Answer> callback)
      : QueuedOp<Op>(its_queue_kind, std::move(operation), until), done(std::move(callback)) {}

  void Refuse(const absl::Status& status) override { done(status); }
  void Respond(Answer answer) { done(std::move(answer)); }

  const Done<Answer> done;
};

template <typename QueuedType>
struct Batcher::AtStore {
  std::vector<QueuedPtr> queued;
  std::vector<decltype(QueuedType::op)> ops;
};

struct Batcher::Worker {
  // Of the call that a worker is to finish.
  enum class Call {
    kNone,
    // Another thread begins it, and `operations` belong to that thread.
    kBeginning,
    kBegun,
    // It could not begin: the worker calls the store.
    kDeclined,
  };

  explicit Worker(std::size_t its_number) : number(its_number) {}

  const std::size_t number;
  SessionWait wait;

  // Guarded by the batcher's mutex.
  Began began;
  Call call = Call::kNone;

  std::variant<AtStore<QueuedReserve>, AtStore<QueuedComplete>> operations;
  Deadline start;
};

std::size_t Batcher::BytesOf(const ReserveOp& op) {
  std::size_t bytes = kOperationBytes + WeightOf(op.key);
  if (op.parent.has_value()) bytes += WeightOf(*op.parent);
  for (const Fingerprint& fingerprint : op.fingerprints) bytes += fingerprint.digest.size();
  for (const auto& [key, value] : op.labels) bytes += kLabelBytes + key.size() + value.size();
  return bytes;
}

Batcher::Group::~Group() {
  if (!operations_.empty()) std::abort();
}

std::vector<std::unique_ptr<Batcher::Worker>> Batcher::MakeWorkers(int threads) {
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::size_t i = 0; i < static_cast<std::size_t>(std::max(1, threads)); ++i) {
    workers.push_back(std::make_unique<Worker>(i));
  }
  return workers;
}

Batcher::Batcher(Store& store, Observer& observer, const BatcherOptions& options)
    : store_(store),
      observer_(observer),
      options_(options),
      budget_(options.max_bytes, observer),
      workers_(MakeWorkers(options.threads)) {
  MutexLock lock(join_mutex_);
  for (const std::unique_ptr<Worker>& worker : workers_) {
    threads_.emplace_back([this, worker = worker.get()] { Work(*worker); });
  }
}

Batcher::~Batcher() { Close(); }

void Batcher::Reserve(ReserveOp op, Deadline deadline, ReserveDone done, Group* group,
                      const Trace& trace, const ReserveCaller* caller) {
  const QueueKind queue_kind = op.relaxed ? QueueKind::kReserveRelaxed : QueueKind::kReserve;
  Enqueue(
      std::make_unique<QueuedReserve>(queue_kind, std::move(op), deadline, std::move(done), caller),
      group, trace);
}

void Batcher::ReserveForWaiter(ReserveOp op, Deadline deadline, ReserveDone done,
                               const Trace& trace, const ReserveCaller* caller) {
  Enqueue(std::make_unique<QueuedReserve>(QueueKind::kReserveForWaiter, std::move(op), deadline,
                                          std::move(done), caller),
          nullptr, trace);
}

void Batcher::Complete(CompleteOp op, Deadline deadline, Done<absl::StatusOr<Completion>> done,
                       Group* group, const Trace& trace) {
  Enqueue(std::make_unique<QueuedComplete>(QueueKind::kComplete, std::move(op), deadline,
                                           std::move(done)),
          group, trace);
}

void Batcher::Release(ReleaseOp op, Deadline deadline, Done<absl::Status> done, Group* group,
                      const Trace& trace) {
  Enqueue(std::make_unique<QueuedRelease>(QueueKind::kRelease, std::move(op), deadline,
                                          std::move(done)),
          group, trace);
}

void Batcher::Extend(ExtendOp op, Deadline deadline, Done<absl::StatusOr<Extension>> done,
                     Group* group, const Trace& trace) {
  Enqueue(
      std::make_unique<QueuedExtend>(QueueKind::kExtend, std::move(op), deadline, std::move(done)),
      group, trace);
}

void Batcher::Get(GetOp op, Deadline deadline, Done<absl::StatusOr<Record>> done, Group* group,
                  const Trace& trace) {
  Enqueue(std::make_unique<QueuedGet>(QueueKind::kGet, std::move(op), deadline, std::move(done)),
          group, trace);
}

void Batcher::GetForWaiter(GetOp op, Done<absl::StatusOr<Record>> done) {
  Enqueue(std::make_unique<QueuedGet>(QueueKind::kGetForWaiter, std::move(op), kNoDeadline,
                                      std::move(done)),
          nullptr);
}

void Batcher::Enqueue(QueuedPtr queued, Group* group, const Trace& trace) {
  if (options_.tracer != nullptr) queued->trace = trace;
  if (group != nullptr) {
    group->operations_.push_back(std::move(queued));
  } else {
    Push(absl::MakeSpan(&queued, 1));
  }
}

void Batcher::Submit(Group& group) {
  // Callbacks of refused ones may fill the group again.
  std::vector<QueuedPtr> operations = std::move(group.operations_);
  group.operations_.clear();
  if (!operations.empty()) Push(absl::MakeSpan(operations));
}

void Batcher::Push(absl::Span<QueuedPtr> operations) {
  std::vector<std::pair<QueuedPtr, absl::Status>> refused;
  std::vector<QueuedPtr> unwanted;
  Worker* begins_for = nullptr;
  std::size_t to_wake = 0;
  std::vector<const Worker*> idle;
  {
    MutexLock lock(mutex_);
    for (QueuedPtr& queued : operations) {
      absl::Status admitted = Admit(*queued);
      if (admitted.ok()) {
        budget_.Add(queued->bytes);
        PushOne(std::move(queued));
      } else {
        refused.emplace_back(std::move(queued), std::move(admitted));
      }
    }
    begins_for = TakeToBegin(unwanted);
    observer_.QueueDepthChanged(queued_);
    if (begins_for == nullptr) {
      to_wake = WorkersFor(operations.size() - refused.size());
      idle = TakeIdle(to_wake);
    }
  }
  if (begins_for != nullptr) Begin(*begins_for);
  Wake(to_wake, idle);
  AnswerUnwanted(unwanted);
  for (const auto& [queued, status] : refused) {
    if (ReasonOf(status) == Reason::kOverloaded) observer_.OperationShed(queued->kind());
    queued->Refuse(status);
  }
}

absl::Status Batcher::Admit(const Queued& queued) const {
  if (closed_) return Closed();
  const bool brings_work = BringsWork(queued.kind());
  if (!budget_.HasRoomFor(queued.bytes, brings_work)) return Overloaded();
  if (queued_ < options_.max_queued) return absl::OkStatus();
  if (queued_ >= WithReserve(options_.max_queued)) return Overloaded();
  if (brings_work && HasItsShare(queued.name_space())) return Overloaded();
  return absl::OkStatus();
}

bool Batcher::HasItsShare(std::string_view name_space) const {
  std::size_t its = 0;
  std::size_t namespaces = 0;
  for (const FairQueue<QueuedPtr>& queue : queues_) {
    its += queue.SizeOf(name_space);
    namespaces = std::max(namespaces, queue.namespaces());
  }
  // One more, since its first operation is not counted yet.
  return its >= options_.max_queued / (namespaces + (its == 0 ? 1 : 0));
}

void Batcher::PushOne(QueuedPtr queued) {
  FairQueue<QueuedPtr>& queue = QueueOf(*queued);
  const RecordId id = queued->id;
  const std::string_view name_space = queued->name_space();
  queue.Push(name_space, id, std::move(queued));
  ++queued_;
}

std::size_t Batcher::WorkersFor(std::size_t operations) const {
  if (operations == 0) return 0;
  const bool now = MayTakeAt() <= std::chrono::steady_clock::now();
  if (!now && one_lingers_) return 0;
  // One batch is the work of one worker.
  return (operations + options_.max_batch - 1) / options_.max_batch;
}

Batcher::SteadyTime Batcher::MayTakeAt(Lane lane) const {
  const std::size_t relaxed = queues_[static_cast<std::size_t>(QueueKind::kReserveRelaxed)].size();
  const std::size_t queued = lane == Lane::kRelaxed ? relaxed : queued_ - relaxed;
  if (queued == 0) return SteadyTime::max();
  if (closed_ || queued >= options_.min_batch_size) return SteadyTime::min();
  SteadyTime last = SteadyTime::min();
  for (const std::unique_ptr<Worker>& worker : workers_) {
    last = std::max(last, lane == Lane::kRelaxed ? worker->began.relaxed : worker->began.durable);
  }
  return last == SteadyTime::min() ? last : last + options_.max_linger;
}

Batcher::SteadyTime Batcher::MayTakeAt() const {
  return std::min(MayTakeAt(Lane::kDurable), MayTakeAt(Lane::kRelaxed));
}

std::vector<const Batcher::Worker*> Batcher::TakeIdle(std::size_t workers) {
  std::vector<const Worker*> taken;
  for (; taken.size() < workers && !idle_.empty(); idle_.pop_back()) taken.push_back(idle_.back());
  return taken;
}

void Batcher::Wake(std::size_t workers, const std::vector<const Worker*>& idle) {
  for (const Worker* const worker : idle) worker->wait.Wake();
  for (std::size_t others = idle.size(); others < workers; ++others) work_.NotifyOne();
}

Batcher::Worker* Batcher::TakeToBegin(std::vector<QueuedPtr>& unwanted) {
  if (idle_.empty() || queued_ == 0 || queued_ > kMaxBegun) return nullptr;
  if (MayTakeAt() > std::chrono::steady_clock::now()) return nullptr;
  const bool completions = AllAre(QueueKind::kComplete);
  if (!completions && !AllAre(QueueKind::kReserve) && !AllAre(QueueKind::kReserveRelaxed)) {
    return nullptr;
  }
  Worker& worker = *idle_.back();
  Batch batch = Take(worker.began, unwanted);
  const auto taken = std::find_if(batch.begin(), batch.end(),
                                  [](const auto& operations) { return !operations.empty(); });
  if (taken == batch.end()) {  // all were unwanted
    worker.began = Began();
    return nullptr;
  }
  idle_.pop_back();
  worker.call = Worker::Call::kBeginning;
  if (completions) {
    worker.operations = ToStore<QueuedComplete>(std::move(*taken));
  } else {
    worker.operations = ToStore<QueuedReserve>(std::move(*taken));
  }
  return &worker;
}

bool Batcher::BeginAtStore(Worker& worker) {
  HeldSession& session = worker.wait.session();
  const auto* const completions = std::get_if<AtStore<QueuedComplete>>(&worker.operations);
  if (completions == nullptr) {
    return session.BeginReserve(std::get<AtStore<QueuedReserve>>(worker.operations).ops);
  }
  std::size_t bytes = 0;
  for (const CompleteOp& op : completions->ops) bytes += op.reply.bytes.size();
  return bytes <= HeldSession::kMaxReplyBytes && session.BeginComplete(completions->ops);
}

void Batcher::Begin(Worker& worker) {
  worker.start = options_.clock->Monotonic();
  const bool begun = BeginAtStore(worker);
  // Before the worker may end: the descriptor is its own.
  if (!begun) worker.wait.Wake();
  MutexLock lock(mutex_);
  worker.call = begun ? Worker::Call::kBegun : Worker::Call::kDeclined;
  begun_.NotifyAll();
}

bool Batcher::StopIdling(Worker& worker) {
  MutexLock lock(mutex_);
  while (worker.call == Worker::Call::kBeginning) begun_.Wait(lock);
  idle_.erase(std::remove(idle_.begin(), idle_.end(), &worker), idle_.end());
  return worker.call != Worker::Call::kNone;
}

void Batcher::FinishBegun(Worker& worker) {
  if (auto* const completions = std::get_if<AtStore<QueuedComplete>>(&worker.operations)) {
    FinishBegun(worker, std::move(*completions), &Store::Complete, &HeldSession::FinishComplete);
  } else {
    FinishBegun(worker, std::move(std::get<AtStore<QueuedReserve>>(worker.operations)),
                &Store::Reserve, &HeldSession::FinishReserve);
  }
}

template <typename QueuedType, typename Op, typename Answer>
void Batcher::FinishBegun(Worker& worker, AtStore<QueuedType> operations,
                          std::vector<Answer> (Store::*call)(absl::Span<const Op>),
                          std::vector<Answer> (HeldSession::*finish)()) {
  if (std::exchange(worker.call, Worker::Call::kNone) == Worker::Call::kDeclined) {
    worker.wait.Release();
    return RunKind(std::move(operations), call);
  }
  std::vector<Answer> answers = (worker.wait.session().*finish)();
  worker.wait.Release();
  {
    // The store is idle: what the answers lead to may begin at once.
    MutexLock lock(mutex_);
    worker.began = Began();
  }
  End(std::move(operations), std::move(answers), worker.start);
}

Batcher::Next Batcher::TakeOrIdle(Worker& worker, Batch& batch, std::vector<QueuedPtr>& unwanted) {
  for (bool tried = false;; tried = true) {
    {
      MutexLock lock(mutex_);
      worker.began = Began();
      while (queued_ == 0 || MayTakeAt() > std::chrono::steady_clock::now()) {
        if (queued_ == 0 && closed_) return Next::kClosed;
        if (queued_ > 0 && !one_lingers_) {
          one_lingers_ = true;
          work_.WaitUntil(lock, MayTakeAt());
          one_lingers_ = false;
        } else if (worker.wait.holds()) {
          idle_.push_back(&worker);
          return Next::kIdle;
        } else if (!tried) {
          break;
        } else {
          work_.Wait(lock);
        }
      }
      if (queued_ > 0 && MayTakeAt() <= std::chrono::steady_clock::now()) {
        batch = Take(worker.began, unwanted);
        observer_.QueueDepthChanged(queued_);
        return Next::kTaken;
      }
    }
    worker.wait.Hold(store_);
  }
}

void Batcher::Work(Worker& worker) {
  pthread_setname_np(pthread_self(), absl::StrCat("batcher-", worker.number).c_str());
  for (;;) {
    Batch batch;
    std::vector<QueuedPtr> unwanted;
    switch (TakeOrIdle(worker, batch, unwanted)) {
      case Next::kClosed:
        return worker.wait.Release();
      case Next::kIdle:
        worker.wait.Await();
        if (StopIdling(worker)) {
          RunAndHold(options_.threads > 1, [&] { FinishBegun(worker); });
        } else {
          worker.wait.Release();
        }
        break;
      case Next::kTaken:
        // The store's methods take a session of their own.
        worker.wait.Release();
        AnswerUnwanted(unwanted);
        RunAndHold(MayBeHeld(batch), [&] { Run(std::move(batch)); });
    }
  }
}

bool Batcher::MayBeHeld(const Batch& batch) const {
  const auto kinds = std::count_if(batch.begin(), batch.end(),
                                   [](const auto& operations) { return !operations.empty(); });
  return options_.threads > 1 && kinds == 1;
}

OperationKind Batcher::KindOf(QueueKind queue_kind) {
  switch (queue_kind) {
    case QueueKind::kComplete:
      return OperationKind::kComplete;
    case QueueKind::kRelease:
      return OperationKind::kRelease;
    case QueueKind::kExtend:
      return OperationKind::kExtend;
    case QueueKind::kReserve:
    case QueueKind::kReserveRelaxed:
    case QueueKind::kReserveForWaiter:
      return OperationKind::kReserve;
    case QueueKind::kGetForWaiter:
    case QueueKind::kGet:
      break;
  }
  return OperationKind::kGet;
}

std::size_t Batcher::PromisedBehind(std::size_t queue_kind) const {
  constexpr auto kFirstPromised = static_cast<std::size_t>(QueueKind::kReserveRelaxed);
  std::size_t promised = 0;
  for (std::size_t behind = std::max(queue_kind + 1, kFirstPromised); behind < kQueueKinds;
       ++behind) {
    promised += std::min(queues_[behind].size(), options_.max_batch / kShare);
  }
  return promised;
}

Batcher::Batch Batcher::Take(Began& began, std::vector<QueuedPtr>& unwanted) {
  const SteadyTime steady_now = std::chrono::steady_clock::now();
  const bool takes_durable = MayTakeAt(Lane::kDurable) <= steady_now;
  const bool takes_relaxed = MayTakeAt(Lane::kRelaxed) <= steady_now;
  // Of both, the relaxed ones go first and are soon over: the next of them need not wait.
  if (takes_durable) {
    began.durable = steady_now;
  } else {
    began.relaxed = steady_now;
  }
  const Deadline now = options_.clock->Monotonic();
  const auto is_unwanted = [now](const QueuedPtr& queued) { return queued->IsUnwanted(now); };
  const Join join(options_.max_batch);
  std::size_t room = options_.max_batch;
  Batch batch;
  std::size_t left = 0;
  for (std::size_t queue_kind = 0; queue_kind < kQueueKinds; ++queue_kind) {
    const bool is_relaxed = static_cast<QueueKind>(queue_kind) == QueueKind::kReserveRelaxed;
    if (is_relaxed ? takes_relaxed : takes_durable) {
      const std::size_t promised = std::min(PromisedBehind(queue_kind), room);
      batch[queue_kind] = queues_[queue_kind].Take(room - promised, is_unwanted, unwanted, join);
      room -= batch[queue_kind].size();
    }
    left += queues_[queue_kind].size();
  }
  queued_ = left;
  return batch;
}

template <typename QueuedType>
Batcher::AtStore<QueuedType> Batcher::ToStore(std::vector<QueuedPtr> taken) {
  AtStore<QueuedType> at_store;
  at_store.ops.reserve(taken.size());
  for (const QueuedPtr& queued : taken) {
    at_store.ops.push_back(std::move(static_cast<QueuedType&>(*queued).op));
  }
  at_store.queued = std::move(taken);
  return at_store;
}

std::vector<Batcher::QueuedPtr> Batcher::StillWanted(std::vector<QueuedPtr> taken) {
  if (taken.empty()) return taken;
  const Deadline now = options_.clock->Monotonic();
  const auto kept =
      std::stable_partition(taken.begin(), taken.end(),
                            [now](const QueuedPtr& queued) { return !queued->IsUnwanted(now); });
  if (kept == taken.end()) return taken;
  std::vector<QueuedPtr> unwanted(std::make_move_iterator(kept),
                                  std::make_move_iterator(taken.end()));
  taken.erase(kept, taken.end());
  std::vector<QueuedPtr> followers;
  for (const QueuedPtr& queued : unwanted) {
    if (queued->kind() != OperationKind::kReserve) break;
    std::vector<QueuedPtr>& its = static_cast<QueuedReserve&>(*queued).followers;
    std::move(its.begin(), its.end(), std::back_inserter(followers));
    its.clear();
  }
  if (!followers.empty()) PutBack(std::move(followers));
  AnswerUnwanted(unwanted);
  return taken;
}

void Batcher::Run(Batch batch) {
  const auto of = [this, &batch](QueueKind queue_kind) {
    return StillWanted(std::move(batch[static_cast<std::size_t>(queue_kind)]));
  };
  RunKind(ToStore<QueuedReserve>(of(QueueKind::kReserveRelaxed)), &Store::Reserve);
  RunTogether(ToStore<QueuedComplete>(of(QueueKind::kComplete)),
              ToStore<QueuedReserve>(of(QueueKind::kReserve)));
  RunKind(ToStore<QueuedRelease>(of(QueueKind::kRelease)), &Store::Release);
  RunKind(ToStore<QueuedExtend>(of(QueueKind::kExtend)), &Store::Extend);
  // Get waits for nothing, so it does not share a call with reads that wait for a standby.
  RunKind(ToStore<QueuedGet>(of(QueueKind::kGet)), &Store::Get);
  RunKind(ToStore<QueuedReserve>(of(QueueKind::kReserveForWaiter)), &Store::Reserve);
  RunKind(ToStore<QueuedGet>(of(QueueKind::kGetForWaiter)), &Store::Get);
}

void Batcher::RunTogether(AtStore<QueuedComplete> completions,
                          AtStore<QueuedReserve> reservations) {
  if (reservations.ops.empty()) return RunKind(std::move(completions), &Store::Complete);
  if (completions.ops.empty()) return RunKind(std::move(reservations), &Store::Reserve);
  const Deadline start = options_.clock->Monotonic();
  SharedAnswers answers = store_.CompleteAndReserve(completions.ops, reservations.ops);
  const absl::Duration took = absl::FromChrono(options_.clock->Monotonic() - start);
  if (options_.tracer != nullptr) {
    StoreSpan span;
    AddToSpan(completions.queued, span);
    AddToSpan(reservations.queued, span);
    if (!span.empty()) {
      absl::Status failure = FailureIn(answers.completions);
      if (failure.ok()) failure = FailureIn(answers.verdicts);
      std::move(span).Record(options_.store_system, "",
                             completions.queued.size() + reservations.queued.size(), took, failure,
                             *options_.tracer);
    }
  }
  const ResponseBatchScope scope;
  Respond(std::move(completions), std::move(answers.completions), took);
  Respond(std::move(reservations), std::move(answers.verdicts), took);
}

template <typename QueuedType, typename Op, typename Answer>
void Batcher::RunKind(AtStore<QueuedType> operations,
                      std::vector<Answer> (Store::*call)(absl::Span<const Op>)) {
  if (operations.ops.empty()) return;
  const Deadline start = options_.clock->Monotonic();
  std::vector<Answer> answers = (store_.*call)(operations.ops);
  End(std::move(operations), std::move(answers), start);
}

template <typename QueuedType, typename Answer>
void Batcher::End(AtStore<QueuedType> operations, std::vector<Answer> answers, Deadline start) {
  const absl::Duration took = absl::FromChrono(options_.clock->Monotonic() - start);
  if (options_.tracer != nullptr) {
    StoreSpan span;
    AddToSpan(operations.queued, span);
    if (!span.empty()) {
      std::move(span).Record(options_.store_system,
                             OperationName(operations.queued.front()->kind()),
                             operations.queued.size(), took, FailureIn(answers), *options_.tracer);
    }
  }
  const ResponseBatchScope scope;
  Respond(std::move(operations), std::move(answers), took);
}

void Batcher::AddToSpan(const std::vector<QueuedPtr>& operations, StoreSpan& span) {
  for (const QueuedPtr& queued : operations) {
    span.AddOperation(queued->trace.has_value() ? &*queued->trace : nullptr);
  }
}

template <typename QueuedType, typename Answer>
void Batcher::Respond(AtStore<QueuedType> operations, std::vector<Answer> answers,
                      absl::Duration took) {
  std::vector<QueuedPtr>& taken = operations.queued;
  // A store that does not answer every operation is broken, and guessing the
  // receivers of its answers could grant twice.
  if (answers.size() != taken.size()) std::abort();
  const OperationKind kind = taken.front()->kind();
  observer_.BatchDone(kind, taken.size(), took);

  for (const Answer& answer : answers) budget_.Add(ReplyIn(answer));
  std::vector<QueuedPtr> left;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    auto& queued = static_cast<QueuedType&>(*taken[i]);
    queued.op = std::move(operations.ops[i]);
    if (IsLeftForNextCall(answers[i])) {
      std::vector<QueuedPtr> followers;
      if constexpr (std::is_same_v<QueuedType, QueuedReserve>) {
        followers.swap(queued.followers);
      }
      left.push_back(std::move(taken[i]));
      std::move(followers.begin(), followers.end(), std::back_inserter(left));
      continue;
    }
    Observe(observer_, kind, queued.id, answers[i]);
    if constexpr (std::is_same_v<QueuedType, QueuedReserve>) {
      if (!queued.followers.empty()) RespondToFollowers(std::move(queued.followers), answers[i]);
    }
    const std::size_t bytes = queued.bytes + ReplyIn(answers[i]);
    queued.Respond(std::move(answers[i]));
    taken[i].reset();
    budget_.Remove(bytes);
  }
  if (!left.empty()) PutBack(std::move(left));
}

void Batcher::RespondToFollowers(std::vector<QueuedPtr> followers,
                                 const absl::StatusOr<Verdict>& answer) {
  // An error, too, may concern the first one alone.
  const bool shared = answer.ok() && std::holds_alternative<Replay>(*answer) &&
                      ReplyIn(answer) <= kMaxSharedReplyBytes;
  if (!shared) return PutBack(std::move(followers));
  for (QueuedPtr& follower : followers) {
    auto& queued = static_cast<QueuedReserve&>(*follower);
    const std::size_t reply_bytes = ReplyIn(answer);
    budget_.Add(reply_bytes);
    Observe(observer_, queued.kind(), queued.id, answer);
    const std::size_t bytes = queued.bytes + reply_bytes;
    queued.Respond(answer);
    follower.reset();
    budget_.Remove(bytes);
  }
}

void Batcher::PutBack(std::vector<QueuedPtr> operations) {
  std::size_t to_wake = 0;
  std::vector<const Worker*> idle;
  {
    MutexLock lock(mutex_);
    for (auto it = operations.rbegin(); it != operations.rend(); ++it) {
      FairQueue<QueuedPtr>& queue = QueueOf(**it);
      const RecordId id = (*it)->id;
      const std::string_view name_space = (*it)->name_space();
      queue.PutBack(name_space, id, std::move(*it));
    }
    queued_ += operations.size();
    observer_.QueueDepthChanged(queued_);
    to_wake = WorkersFor(operations.size());
    idle = TakeIdle(to_wake);
  }
  Wake(to_wake, idle);
}

void Batcher::AnswerUnwanted(const std::vector<QueuedPtr>& unwanted) {
  if (unwanted.empty()) return;
  const ResponseBatchScope scope;
  for (const QueuedPtr& queued : unwanted) {
    if (queued->CallerHasLeft()) {
      queued->Refuse(absl::CancelledError("the caller left while its reservation was queued"));
    } else {
      observer_.OperationOverdue(queued->kind());
      queued->Refuse(Overdue());
    }
    budget_.Remove(queued->bytes);
  }
}

void Batcher::Close() {
  std::vector<const Worker*> idle;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    idle = TakeIdle(workers_.size());
  }
  work_.NotifyAll();
  Wake(idle.size(), idle);
  MutexLock lock(join_mutex_);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace idempotency::internal
