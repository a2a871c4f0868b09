#include "server/queue/batcher.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/after_answers.h"
#include "grpc_idempotency/errors.h"
#include "server/queue/queue_errors.h"

namespace idempotency::internal {
namespace {

// With `may_be_held`, work that follows the answers may hold this thread.
template <typename Run>
void RunAndHold(bool may_be_held, Run run) {
  if (!may_be_held) return run();
  const AfterAnswers after;
  run();
}

}  // namespace

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

Batcher::Batcher(RecordStore& store, Observer& observer, const BatcherOptions& options)
    : store_(store),
      observer_(observer),
      options_(options),
      budget_(options.max_bytes, observer),
      runner_(store, observer, budget_, {options.clock, options.tracer, options.store_system},
              [this](std::vector<QueuedPtr> operations) { PutBack(std::move(operations)); }),
      workers_(MakeWorkers(options.threads)),
      queues_(options.max_queued, options.max_batch, budget_),
      states_(workers_.size()) {
  MutexLock lock(join_mutex_);
  for (const std::unique_ptr<Worker>& worker : workers_) {
    threads_.emplace_back([this, worker = worker.get()] { Work(*worker); });
  }
}

Batcher::~Batcher() { Close(); }

// Operations arrive.

void Batcher::Reserve(ReserveOp op, Deadline deadline, ReserveDone done, Group* group,
                      const Trace& trace, const ReserveCaller* caller) {
  const QueueKind queue = op.relaxed ? QueueKind::kReserveRelaxed : QueueKind::kReserve;
  Enqueue(queue, std::move(op), deadline, std::move(done), group, trace, caller);
}

void Batcher::ReserveForWaiter(ReserveOp op, Deadline deadline, ReserveDone done,
                               const Trace& trace, const ReserveCaller* caller) {
  Enqueue(QueueKind::kReserveForWaiter, std::move(op), deadline, std::move(done), nullptr, trace,
          caller);
}

void Batcher::Complete(CompleteOp op, Deadline deadline, Done<absl::StatusOr<Completion>> done,
                       Group* group, const Trace& trace) {
  Enqueue(QueueKind::kComplete, std::move(op), deadline, std::move(done), group, trace);
}

void Batcher::Release(ReleaseOp op, Deadline deadline, Done<absl::Status> done, Group* group,
                      const Trace& trace) {
  Enqueue(QueueKind::kRelease, std::move(op), deadline, std::move(done), group, trace);
}

void Batcher::Extend(ExtendOp op, Deadline deadline, Done<absl::StatusOr<Extension>> done,
                     Group* group, const Trace& trace) {
  Enqueue(QueueKind::kExtend, std::move(op), deadline, std::move(done), group, trace);
}

void Batcher::Get(GetOp op, Deadline deadline, Done<absl::StatusOr<Record>> done, Group* group,
                  const Trace& trace) {
  Enqueue(QueueKind::kGet, std::move(op), deadline, std::move(done), group, trace);
}

void Batcher::GetForWaiter(GetOp op, Done<absl::StatusOr<Record>> done) {
  Enqueue(QueueKind::kGetForWaiter, std::move(op), kNoDeadline, std::move(done), nullptr,
          std::nullopt);
}

template <typename Op>
void Batcher::Enqueue(QueueKind queue, Op op, Deadline deadline,
                      typename StoreMethod<Op>::Done done, Group* group, const Trace& trace,
                      const ReserveCaller* caller) {
  QueuedPtr queued =
      std::make_unique<QueuedFor<Op>>(queue, std::move(op), deadline, std::move(done));
  queued->caller = caller;
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
  std::optional<CallToBegin> to_begin;
  std::size_t to_wake = 0;
  std::vector<const Worker*> idle;
  {
    MutexLock lock(mutex_);
    for (QueuedPtr& queued : operations) {
      absl::Status admitted = closed_ ? QueueIsClosed() : queues_.Admit(*queued);
      if (admitted.ok()) {
        queues_.Push(std::move(queued));
      } else {
        refused.emplace_back(std::move(queued), std::move(admitted));
      }
    }
    to_begin = TakeToBegin(unwanted);
    observer_.QueueDepthChanged(queues_.size());
    if (!to_begin.has_value()) {
      to_wake = WorkersFor(operations.size() - refused.size());
      idle = TakeIdle(to_wake);
    }
  }
  if (to_begin.has_value()) BeginCall(*std::move(to_begin));
  Wake(to_wake, idle);
  runner_.AnswerUnwanted(std::move(unwanted));
  for (const auto& [queued, status] : refused) {
    if (ReasonOf(status) == Reason::kOverloaded) {
      observer_.OperationShed(queued->kind(), ShedReason::kQueue);
    }
    queued->Refuse(status);
  }
}

void Batcher::PutBack(std::vector<QueuedPtr> operations) {
  std::size_t to_wake = 0;
  std::vector<const Worker*> idle;
  {
    MutexLock lock(mutex_);
    const std::size_t returned = operations.size();
    queues_.PutBack(std::move(operations));
    observer_.QueueDepthChanged(queues_.size());
    to_wake = WorkersFor(returned);
    idle = TakeIdle(to_wake);
  }
  Wake(to_wake, idle);
}

// When a batch leaves.

SteadyTime Batcher::MayTakeAt(Lane lane) const {
  const std::size_t queued = queues_.SizeOf(lane);
  if (queued == 0) return SteadyTime::max();
  if (closed_ || queued >= options_.min_batch_size) return SteadyTime::min();
  SteadyTime last = SteadyTime::min();
  for (const WorkerState& state : states_) {
    last = std::max(last, lane == Lane::kRelaxed ? state.began.relaxed : state.began.durable);
  }
  return last == SteadyTime::min() ? last : last + options_.max_linger;
}

SteadyTime Batcher::MayTakeAt() const {
  return std::min(MayTakeAt(Lane::kDurable), MayTakeAt(Lane::kRelaxed));
}

OperationBatch Batcher::Take(Began& began, std::vector<QueuedPtr>& unwanted) {
  const SteadyTime now = std::chrono::steady_clock::now();
  const OperationQueues::Lanes lanes = {MayTakeAt(Lane::kDurable) <= now,
                                        MayTakeAt(Lane::kRelaxed) <= now};
  // Of both, the relaxed ones go first and are soon over: the next of them need not wait.
  if (lanes.durable) {
    began.durable = now;
  } else {
    began.relaxed = now;
  }
  return queues_.Take(lanes, options_.clock->Monotonic(), unwanted);
}

// Which workers take it.

std::size_t Batcher::WorkersFor(std::size_t operations) const {
  if (operations == 0) return 0;
  const bool now = MayTakeAt() <= std::chrono::steady_clock::now();
  if (!now && one_lingers_) return 0;
  // One batch is the work of one worker.
  return (operations + options_.max_batch - 1) / options_.max_batch;
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

void Batcher::WakeForLarge() {
  if (queues_.LeftLarge()) Wake(1, TakeIdle(1));
}

void Batcher::WakeForLane(Lane lane) {
  if (queues_.SizeOf(lane) > 0 && !one_lingers_) Wake(1, TakeIdle(1));
}

// A call through a held connection, and its hand-over.

std::optional<Batcher::CallToBegin> Batcher::TakeToBegin(std::vector<QueuedPtr>& unwanted) {
  if (idle_.empty() || queues_.size() == 0 || queues_.size() > kMaxBegun) return std::nullopt;
  if (MayTakeAt() > std::chrono::steady_clock::now()) return std::nullopt;
  const std::optional<QueueKind> queue = queues_.OnlyKind();
  if (!queue.has_value() || !HeldCall::IsFor(*queue)) return std::nullopt;
  Worker& worker = *idle_.back();
  WorkerState& state = states_[worker.number];
  OperationBatch batch = Take(state.began, unwanted);
  std::vector<QueuedPtr>& taken = batch.of(*queue);
  if (taken.empty()) {  // all were unwanted
    state.began = Began();
    return std::nullopt;
  }
  idle_.pop_back();
  WakeForLarge();
  state.is_being_handed_a_call = true;
  return CallToBegin{&worker, HeldCall(*queue, std::move(taken))};
}

void Batcher::BeginCall(CallToBegin to_begin) {
  Worker& worker = *to_begin.worker;
  HeldCall& call = to_begin.call;
  const bool begun = call.Begin(worker.wait.connection(), options_.clock->Monotonic());
  // Otherwise the store's answer wakes the worker. Before the hand-over: the descriptor is the
  // worker's, which may end afterwards.
  if (!begun) worker.wait.Wake();
  MutexLock lock(mutex_);
  WorkerState& state = states_[worker.number];
  state.handed_over = std::move(call);
  state.is_being_handed_a_call = false;
  handed_over_.NotifyAll();
}

std::optional<HeldCall> Batcher::StopIdling(Worker& worker) {
  MutexLock lock(mutex_);
  WorkerState& state = states_[worker.number];
  while (state.is_being_handed_a_call) handed_over_.Wait(lock);
  idle_.erase(std::remove(idle_.begin(), idle_.end(), &worker), idle_.end());
  return std::exchange(state.handed_over, std::nullopt);
}

void Batcher::FinishCall(Worker& worker, HeldCall call) {
  if (!call.begun()) {
    // The store's methods take a connection of their own.
    worker.wait.Release();
    return runner_.Run(std::move(call));
  }
  call.Finish(worker.wait.connection());
  worker.wait.Release();
  {
    // The store is idle: what the answers lead to may begin at once.
    MutexLock lock(mutex_);
    states_[worker.number].began = Began();
  }
  runner_.Deliver(std::move(call));
}

// The workers.

Batcher::Wait Batcher::WaitForWork(Worker& worker, bool may_hold, MutexLock& lock) {
  while (queues_.size() == 0 || MayTakeAt() > std::chrono::steady_clock::now()) {
    if (queues_.size() == 0 && closed_) return Wait::kClosed;
    if (queues_.size() > 0 && !one_lingers_) {
      one_lingers_ = true;
      work_.WaitUntil(lock, MayTakeAt());
      one_lingers_ = false;
    } else if (worker.wait.holds()) {
      return Wait::kIdle;
    } else if (may_hold) {
      return Wait::kHoldFirst;
    } else {
      work_.Wait(lock);
    }
  }
  return Wait::kReady;
}

Batcher::Next Batcher::TakeOrIdle(Worker& worker, OperationBatch& batch,
                                  std::vector<QueuedPtr>& unwanted) {
  for (bool may_hold = true;; may_hold = false) {
    {
      MutexLock lock(mutex_);
      Began& began = states_[worker.number].began;
      began = Began();
      switch (WaitForWork(worker, may_hold, lock)) {
        case Wait::kReady:
          batch = Take(began, unwanted);
          WakeForLarge();
          WakeForLane(began.durable == SteadyTime::min() ? Lane::kDurable : Lane::kRelaxed);
          observer_.QueueDepthChanged(queues_.size());
          return Next::kTaken;
        case Wait::kIdle:
          idle_.push_back(&worker);
          return Next::kIdle;
        case Wait::kClosed:
          return Next::kClosed;
        case Wait::kHoldFirst:
          break;
      }
    }
    worker.wait.Hold(store_);
  }
}

void Batcher::Work(Worker& worker) {
  pthread_setname_np(pthread_self(), absl::StrCat("batcher-", worker.number).c_str());
  for (;;) {
    OperationBatch batch;
    std::vector<QueuedPtr> unwanted;
    switch (TakeOrIdle(worker, batch, unwanted)) {
      case Next::kClosed:
        return worker.wait.Release();
      case Next::kIdle:
        worker.wait.Await();
        if (std::optional<HeldCall> call = StopIdling(worker)) {
          RunAndHold(options_.threads > 1, [&] { FinishCall(worker, *std::move(call)); });
        } else {
          worker.wait.Release();
        }
        break;
      case Next::kTaken:
        // The store's methods take a connection of their own.
        worker.wait.Release();
        runner_.AnswerUnwanted(std::move(unwanted));
        RunAndHold(MayBeHeld(batch), [&] { runner_.Run(std::move(batch)); });
    }
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
