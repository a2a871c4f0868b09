#include "server/queue/in_flight_waiters.h"

#include <pthread.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "grpc_idempotency/errors.h"
#include "server/queue/answer_batch_scope.h"
#include "server/queue/request_matches.h"

namespace idempotency::internal {
namespace {

// The part of a caller's deadline that is reserved for sending the answer.
constexpr absl::Duration kAnswerMargin = absl::Milliseconds(20);

}  // namespace

class InFlightWaiters::Waiter final : public Batcher::ReserveCaller {
 public:
  // What the caller still needs.
  enum class Caller { kWaits, kTakesAnswer, kGone };

  Waiter(InFlightWaiters& its_owner, ReserveOp&& reserve, Deadline rpc_deadline,
         Deadline wait_limit, Done callback, std::optional<TraceContext> its_trace)
      : owner(its_owner),
        id(reserve.id),
        deadline(rpc_deadline),
        limit(wait_limit),
        done(std::move(callback)),
        trace(its_trace),
        op(std::move(reserve)) {}

  bool HasLeft() const override { return caller.load() == Caller::kGone; }

  InFlightWaiters& owner;
  const RecordId id;
  const Deadline deadline;
  const Deadline limit;
  const Done done;
  const std::optional<TraceContext> trace;

  // In the batcher during a store call, otherwise here.
  ReserveOp op;
  // Set while the op is in the batcher, whose callback is a plain pointer.
  WaiterPtr self;

  // Changed under the mutex of the owner.
  std::atomic<Caller> caller{Caller::kWaits};
  // Set while it waits; under the mutex.
  std::optional<WaiterId> waiter_id;
  MemoryBudget::Hold held;
  // It was sent to the store on behalf of its record. Set before it is sent, and
  // cleared by its answer.
  bool trying = false;
};

InFlightWaiters::InFlightWaiters(Batcher& batcher, Observer& observer,
                                 const InFlightWaitersOptions& options)
    : batcher_(batcher), observer_(observer), options_(options) {
  const auto seed = std::chrono::steady_clock::now().time_since_epoch().count();
  jitter_.seed(static_cast<std::minstd_rand::result_type>(seed));
  MutexLock lock(join_mutex_);
  timer_ = std::thread([this] { RunTimer(); });
}

InFlightWaiters::~InFlightWaiters() {
  Close();
  MutexLock lock(mutex_);
  while (callbacks_.load() > 0) callbacks_done_.Wait(lock);
}

InFlightWaiters::WaiterPtr InFlightWaiters::NewWaiter(ReserveOp op, Deadline deadline,
                                                      absl::Duration max_wait, Done done,
                                                      std::optional<TraceContext> trace) {
  const absl::Duration wait = std::clamp(max_wait, absl::ZeroDuration(), limits::kMaxWait);
  const Deadline limit = std::min(options_.clock->Monotonic() + absl::ToChronoNanoseconds(wait),
                                  deadline - absl::ToChronoNanoseconds(kAnswerMargin));
  return std::make_shared<Waiter>(*this, std::move(op), deadline, limit, std::move(done), trace);
}

const ReserveOp& InFlightWaiters::OpOf(const WaiterPtr& waiter) { return waiter->op; }

void InFlightWaiters::Start(const WaiterPtr& waiter, Batcher::Group* group) {
  SendTry(waiter, group);
}

void InFlightWaiters::StopWaiting(const WaiterPtr& waiter) {
  Todo todo;
  {
    MutexLock lock(mutex_);
    if (waiter->caller.load() == Waiter::Caller::kWaits) {
      waiter->caller = Waiter::Caller::kTakesAnswer;
    }
    AnswerCancelled(waiter, todo);
  }
  Do(std::move(todo));
}

void InFlightWaiters::Cancel(const WaiterPtr& waiter) {
  Todo todo;
  {
    MutexLock lock(mutex_);
    waiter->caller = Waiter::Caller::kGone;
    observer_.CallerLeft();
    AnswerCancelled(waiter, todo);
  }
  Do(std::move(todo));
}

void InFlightWaiters::AnswerCancelled(const WaiterPtr& waiter, Todo& todo) {
  if (!waiter->waiter_id.has_value()) return;
  RecordWaiters& entry = records_.at(waiter->id);
  Remove(entry, waiter);
  UpdateSchedule(waiter->id, entry);
  todo.answers.emplace_back(waiter, absl::CancelledError());
}

void InFlightWaiters::OnRecordChanged(const RecordId& id) {
  if (open_records_.load() == 0) return;
  Todo todo;
  {
    MutexLock lock(mutex_);
    const auto found = records_.find(id);
    if (found == records_.end()) return;
    RecordWaiters& entry = found->second;
    if (entry.phase == Phase::kFollows) {
      ReadNow(id, entry, Phase::kConfirms, todo);
    } else {
      entry.changed = true;
    }
    UpdateSchedule(id, entry);
  }
  Do(std::move(todo));
}

void InFlightWaiters::Close() {
  Todo todo;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    while (!limits_.empty()) {
      const WaiterPtr waiter = limits_.begin()->second;
      RecordWaiters& entry = records_.at(waiter->id);
      todo.answers.emplace_back(waiter, StillInFlight(entry));
      Remove(entry, waiter);
      UpdateSchedule(waiter->id, entry);
    }
    timer_wakes_.NotifyAll();
  }
  Do(std::move(todo));
  MutexLock lock(join_mutex_);
  if (timer_.joinable()) timer_.join();
}

// The batcher's answers.

void InFlightWaiters::Answered(const WaiterPtr& waiter, absl::StatusOr<Verdict> answer) {
  const auto* const reserved = answer.ok() ? std::get_if<Reserved>(&*answer) : nullptr;
  const auto* const in_flight = answer.ok() ? std::get_if<InFlight>(&*answer) : nullptr;
  // Most calls have nothing to do with any waiter.
  if (in_flight == nullptr && !waiter->trying && !waiter->HasLeft()) {
    return waiter->done(answer);
  }
  Todo todo;
  std::optional<Reserved> unwanted;
  {
    MutexLock lock(mutex_);
    const bool waits = in_flight != nullptr && Add(waiter, *in_flight);
    if (std::exchange(waiter->trying, false)) ApplyVerdict(*waiter, answer, todo);
    if (!waits) {
      const bool gone = waiter->HasLeft();
      if (gone && reserved != nullptr && !waiter->op.request_token) unwanted = *reserved;
      if (gone) answer = absl::CancelledError();
      todo.answers.emplace_back(waiter, std::move(answer));
    }
  }
  if (unwanted.has_value()) GiveBack(waiter, *unwanted);
  Do(std::move(todo));
}

void InFlightWaiters::ReadDone(const RecordId& id, absl::StatusOr<Record> record) {
  Todo todo;
  {
    MutexLock lock(mutex_);
    --reads_;
    RecordWaiters& entry = records_.at(id);
    if (std::exchange(entry.phase, Phase::kFollows) == Phase::kReads) {
      ApplyUnconfirmedRead(id, entry, record, todo);
    } else if (record.ok()) {
      ApplyRecord(entry, std::make_shared<const Record>(*std::move(record)), todo);
    } else {
      ApplyError(entry, record.status(), todo);
    }
    if (std::exchange(entry.changed, false) && entry.phase == Phase::kFollows) {
      ReadNow(id, entry, Phase::kConfirms, todo);
    }
    UpdateSchedule(id, entry);
    // A read that the timer held back may go now.
    timer_wakes_.NotifyOne();
  }
  Do(std::move(todo));
}

// The handling of the answers.

void InFlightWaiters::ApplyVerdict(const Waiter& tried, const absl::StatusOr<Verdict>& answer,
                                   Todo& todo) {
  const RecordId& id = tried.id;
  RecordWaiters& entry = records_.at(id);
  entry.phase = Phase::kFollows;
  const bool changed = std::exchange(entry.changed, false);
  // One branch per outcome, alike or not. NOLINTNEXTLINE(bugprone-branch-clone)
  if (absl::IsCancelled(answer.status())) {
    // It never got to the store.
    ReadNow(id, entry, Phase::kConfirms, todo);
  } else if (!answer.ok()) {
    ReadLater(entry);
    // One try per pause while the store cannot answer, also after the lease.
    entry.schedule.DelayTry();
  } else if (const auto* const reserved = std::get_if<Reserved>(&*answer)) {
    FollowAttempt(entry, InFlight{reserved->lease_remaining, reserved->attempt});
    if (const WaiterPtr repetition = RepetitionOf(entry, tried.op); repetition != nullptr) {
      entry.changed = changed;
      Try(entry, repetition, todo);
    } else if (changed) {
      ReadNow(id, entry, Phase::kConfirms, todo);
    }
  } else if (!std::holds_alternative<InFlight>(*answer) || changed) {
    // It is settled, so the record answers the others.
    ReadNow(id, entry, Phase::kConfirms, todo);
  }
  UpdateSchedule(id, entry);
}

void InFlightWaiters::ApplyUnconfirmedRead(const RecordId& id, RecordWaiters& entry,
                                           const absl::StatusOr<Record>& found, Todo& todo) {
  if (!found.ok() && ReasonOf(found.status()) != Reason::kRecordDamaged) {
    return ApplyError(entry, found.status(), todo);
  }
  if (found.ok() && entry.schedule.IsHeldIn(*found) && entry.compared == found->token) {
    return ReadLater(entry);
  }
  if (!found.ok() || ProvesAny(entry, *found)) {
    ReadNow(id, entry, Phase::kConfirms, todo);
  } else {
    // A reservation is confirmed by itself.
    entry.compared = found->token;
    WaitOrTry(entry, *found, todo);
  }
}

bool InFlightWaiters::ProvesAny(const RecordWaiters& entry, const Record& record) const {
  RequestMatches matches(batcher_, record);
  return std::any_of(entry.waiters.begin(), entry.waiters.end(),
                     [&record, &matches](const auto& waiter) {
                       return ProofFrom(record, waiter.second->op, matches).has_value();
                     });
}

void InFlightWaiters::ApplyRecord(RecordWaiters& entry, std::shared_ptr<const Record> record,
                                  Todo& todo) {
  RequestMatches matches(batcher_, *record);
  std::vector<Proved> proved;
  for (const auto& [waiter_id, waiter] : entry.waiters) {
    if (waiter_id >= entry.read_before) break;
    if (const auto proof = ProofFrom(*record, waiter->op, matches)) {
      proved.push_back({waiter, record, *proof});
    }
  }
  for (Proved& its : proved) {
    Remove(entry, its.waiter);
    todo.proved.push_back(std::move(its));
  }
  WaitOrTry(entry, *record, todo);
}

void InFlightWaiters::WaitOrTry(RecordWaiters& entry, const Record& record, Todo& todo) {
  if (entry.schedule.IsHeldIn(record)) {
    ReadLater(entry);
  } else {
    TryFirst(entry, todo);
  }
}

void InFlightWaiters::ApplyError(RecordWaiters& entry, const absl::Status& error, Todo& todo) {
  const std::optional<Reason> reason = ReasonOf(error);
  if (reason == Reason::kRecordNotFound || reason == Reason::kRecordIdCollision) {
    // A reservation decides how to handle it.
    TryFirst(entry, todo);
  } else if (reason == Reason::kRecordDamaged) {
    while (!entry.waiters.empty()) {
      const WaiterPtr waiter = entry.waiters.begin()->second;
      Remove(entry, waiter);
      todo.answers.emplace_back(waiter, error);
    }
  } else {
    ReadLater(entry);
  }
}

void InFlightWaiters::FollowAttempt(RecordWaiters& entry, const InFlight& in_flight) {
  entry.schedule.FollowAttempt(in_flight, options_.clock->Monotonic(), options_.first_pause);
}

// Places.

bool InFlightWaiters::Add(const WaiterPtr& waiter, const InFlight& in_flight) {
  if (closed_ || waiter->caller.load() != Waiter::Caller::kWaits ||
      options_.clock->Monotonic() >= waiter->limit) {
    return false;
  }
  const std::string& name_space = waiter->op.key.name_space;
  const std::size_t left = options_.max_waiters - std::min(options_.max_waiters, shares_.total());
  if (!shares_.MayTake(name_space, 1, left)) return false;
  std::optional<MemoryBudget::Hold> held =
      batcher_.budget().TryHoldWaiter(name_space, Batcher::BytesOf(waiter->op));
  if (!held.has_value()) return false;
  waiter->held = *std::move(held);
  shares_.Add(name_space, 1);
  const WaiterId waiter_id = next_waiter_id_++;
  waiter->waiter_id = waiter_id;
  RecordWaiters& entry = records_[waiter->id];
  open_records_ = records_.size();
  entry.waiters.emplace(waiter_id, waiter);
  if (waiter->op.request_token) entry.by_token.emplace(*waiter->op.request_token, waiter_id);
  limits_.emplace(std::make_pair(waiter->limit, waiter_id), waiter);
  FollowAttempt(entry, in_flight);
  UpdateSchedule(waiter->id, entry);
  observer_.WaitersChanged(limits_.size());
  if (limits_.begin()->second == waiter) timer_wakes_.NotifyOne();
  return true;
}

void InFlightWaiters::Remove(RecordWaiters& entry, const WaiterPtr& waiter) {
  const WaiterId waiter_id = *std::exchange(waiter->waiter_id, std::nullopt);
  limits_.erase({waiter->limit, waiter_id});
  shares_.Remove(waiter->op.key.name_space, 1);
  waiter->held.Release();
  observer_.WaitersChanged(limits_.size());
  entry.waiters.erase(waiter_id);
  if (waiter->op.request_token) entry.by_token.erase({*waiter->op.request_token, waiter_id});
}

Verdict InFlightWaiters::StillInFlight(const RecordWaiters& entry) const {
  return entry.schedule.StillInFlight(options_.clock->Monotonic());
}

// The next records to examine.

void InFlightWaiters::TryFirst(RecordWaiters& entry, Todo& todo) {
  if (entry.waiters.empty()) return;
  Try(entry, entry.waiters.begin()->second, todo);
}

void InFlightWaiters::Try(RecordWaiters& entry, WaiterPtr waiter, Todo& todo) {
  Remove(entry, waiter);
  waiter->trying = true;
  entry.phase = Phase::kTries;
  todo.tries.push_back(std::move(waiter));
}

InFlightWaiters::WaiterPtr InFlightWaiters::RepetitionOf(const RecordWaiters& entry,
                                                         const ReserveOp& op) {
  if (!op.request_token) return nullptr;
  const auto found = entry.by_token.lower_bound({*op.request_token, 0});
  if (found == entry.by_token.end() || found->first != *op.request_token) return nullptr;
  return entry.waiters.at(found->second);
}

void InFlightWaiters::ReadNow(const RecordId& id, RecordWaiters& entry, Phase read, Todo& todo) {
  if (entry.waiters.empty()) return;
  entry.phase = read;
  entry.read_before = next_waiter_id_;
  ++reads_;
  const bool confirmed = read == Phase::kConfirms;
  todo.reads.push_back({id, entry.waiters.begin()->second->op.key, confirmed});
}

void InFlightWaiters::ReadLater(RecordWaiters& entry) {
  // 0.8 to 1.2 of the pause, so that replicas do not read at the same time.
  const double jitter = std::uniform_real_distribution<double>(0.8, 1.2)(jitter_);
  entry.schedule.ReadLater(options_.clock->Monotonic(), jitter, options_.longest_pause);
}

void InFlightWaiters::UpdateSchedule(const RecordId& id, RecordWaiters& entry) {
  const bool busy = entry.phase != Phase::kFollows;
  if (entry.due != Batcher::kNoDeadline) due_.erase({entry.due, id});
  if (entry.waiters.empty() && !busy) {
    records_.erase(id);
    open_records_ = records_.size();
    return;
  }
  entry.due = Batcher::kNoDeadline;
  if (busy || entry.waiters.empty()) return;
  entry.due = entry.schedule.due();
  due_.emplace(entry.due, id);
  if (due_.begin()->second == id) timer_wakes_.NotifyOne();
}

// Outside the lock.

void InFlightWaiters::Do(Todo todo) {
  const AnswerBatchScope scope;
  for (const auto& [waiter, answer] : todo.answers) waiter->done(answer);
  const Proved* last = nullptr;
  absl::StatusOr<Verdict> verdict = absl::UnknownError("no waiter");
  for (const Proved& proved : todo.proved) {
    const bool same =
        last != nullptr && last->proof == proved.proof && last->record == proved.record;
    if (!same) verdict = VerdictOf(proved.proof, *proved.record);
    last = &proved;
    proved.waiter->done(verdict);
  }
  for (const WaiterPtr& waiter : todo.tries) SendTry(waiter);
  for (GetOp& op : todo.reads) SendRead(std::move(op));
}

void InFlightWaiters::SendTry(const WaiterPtr& waiter, Batcher::Group* group) {
  // One that left to try on behalf of its record waited until now.
  const Waiter::Caller caller = waiter->caller.load();
  if (caller == Waiter::Caller::kGone || (waiter->trying && caller != Waiter::Caller::kWaits)) {
    Answered(waiter, absl::CancelledError());
    return;
  }
  CallbackBegins();
  waiter->self = waiter;
  // A pointer fits into the callback without memory of its own.
  const auto answered = [pointer = waiter.get()](absl::StatusOr<Verdict> answer, ReserveOp&& op) {
    const WaiterPtr returned = std::move(pointer->self);
    returned->op = std::move(op);
    InFlightWaiters& owner = returned->owner;
    owner.Answered(returned, std::move(answer));
    owner.CallbackReturns();
  };
  if (waiter->trying) {
    batcher_.ReserveForWaiter(std::move(waiter->op), waiter->deadline, answered, waiter->trace,
                              waiter.get());
  } else {
    batcher_.Reserve(std::move(waiter->op), waiter->deadline, answered, group, waiter->trace,
                     waiter.get());
  }
}

void InFlightWaiters::SendRead(GetOp op) {
  CallbackBegins();
  const RecordId id = op.id;
  batcher_.GetForWaiter(std::move(op), [this, id](absl::StatusOr<Record> record) {
    ReadDone(id, std::move(record));
    CallbackReturns();
  });
}

void InFlightWaiters::GiveBack(const WaiterPtr& waiter, const Reserved& grant) {
  CallbackBegins();
  // This attempt did nothing. But where an earlier one left its outcome open,
  // the record must continue to require recovery.
  ReleaseOp op{waiter->op.key, waiter->id, grant.token, "the call was cancelled before the grant",
               /*outcome_unknown=*/grant.recovering};
  // If it fails, the lease ends by itself.
  batcher_.Release(std::move(op), Batcher::kNoDeadline,
                   [this, id = waiter->id](const absl::Status&) {
                     OnRecordChanged(id);
                     CallbackReturns();
                   });
}

void InFlightWaiters::CallbackReturns() {
  std::size_t before = callbacks_.load();
  while (before > 1) {
    if (callbacks_.compare_exchange_weak(before, before - 1)) return;
  }
  // Under the lock, so that the destructor cannot end before this does.
  MutexLock lock(mutex_);
  if (callbacks_.fetch_sub(1) == 1) callbacks_done_.NotifyAll();
}

// The timer.

void InFlightWaiters::RunTimer() {
  pthread_setname_np(pthread_self(), "waiters-timer");
  for (;;) {
    Todo todo;
    {
      MutexLock lock(mutex_);
      for (;;) {
        if (closed_) return;
        const Deadline due = NextDue();
        const Deadline now = options_.clock->Monotonic();
        if (due <= now) break;
        if (due == Batcher::kNoDeadline) {
          timer_wakes_.Wait(lock);
        } else {
          // The difference and not the time: a test's clock has an epoch of its
          // own.
          timer_wakes_.WaitUntil(lock, std::chrono::steady_clock::now() + (due - now));
        }
      }
      todo = TakeDue();
    }
    Do(std::move(todo));
  }
}

InFlightWaiters::Deadline InFlightWaiters::NextDue() const {
  Deadline due = limits_.empty() ? Batcher::kNoDeadline : limits_.begin()->first.first;
  if (!due_.empty() && reads_ < options_.max_reads) due = std::min(due, due_.begin()->first);
  return due;
}

InFlightWaiters::Todo InFlightWaiters::TakeDue() {
  Todo todo;
  const Deadline now = options_.clock->Monotonic();
  while (!limits_.empty() && limits_.begin()->first.first <= now) {
    const WaiterPtr waiter = limits_.begin()->second;
    RecordWaiters& entry = records_.at(waiter->id);
    todo.answers.emplace_back(waiter, StillInFlight(entry));
    Remove(entry, waiter);
    UpdateSchedule(waiter->id, entry);
  }
  while (!due_.empty() && due_.begin()->first <= now && reads_ < options_.max_reads) {
    const RecordId id = due_.begin()->second;
    RecordWaiters& entry = records_.at(id);
    if (entry.schedule.LeaseIsOver(now)) {
      TryFirst(entry, todo);
    } else {
      ReadNow(id, entry, Phase::kReads, todo);
    }
    UpdateSchedule(id, entry);
  }
  return todo;
}

}  // namespace idempotency::internal
