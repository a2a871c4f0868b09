#include "server/wait_room.h"

#include <pthread.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint.h"
#include "server/answer_scope.h"
#include "server/store/decision.h"

namespace idempotency::internal {
namespace {

// What a caller's deadline leaves for sending the answer.
constexpr absl::Duration kAnswerMargin = absl::Milliseconds(20);
// A lease that is as good as over is not asked for more often than this.
constexpr absl::Duration kShortestLease = absl::Milliseconds(1);

// What the record proves about the reservation, without asking the store again:
// lines 4, 5 and 9 of the table of verdicts. nullopt where only Reserve can
// tell.
enum class Proof { kMismatch, kReplay, kOutcomeUnknown };

std::optional<Proof> ProofFrom(const Record& record, const ReserveOp& op) {
  if (record.key != op.key) return std::nullopt;
  switch (CompareFingerprints(record.fingerprints, op.fingerprints)) {
    case FingerprintMatch::kNothingInCommon:
      return std::nullopt;
    case FingerprintMatch::kDifferent:
      return Proof::kMismatch;
    case FingerprintMatch::kSame:
      break;
  }
  if (record.state == RecordState::kCompleted && record.reply.has_value() &&
      record.completed_at.has_value()) {
    return Proof::kReplay;
  }
  if (record.state == RecordState::kUnknown && !op.recover) return Proof::kOutcomeUnknown;
  return std::nullopt;
}

Verdict VerdictOf(Proof proof, const Record& record) {
  switch (proof) {
    case Proof::kMismatch:
      return Mismatch{record.attempt};
    case Proof::kReplay:
      return Replay{*record.reply, *record.completed_at, record.expires_at, record.attempt,
                    record.labels};
    case Proof::kOutcomeUnknown:
      break;
  }
  return ToOutcomeUnknown(record);
}

}  // namespace

class WaitRoom::Call {
 public:
  // What the caller still wants.
  enum class Caller { kWaits, kTakesAnswer, kGone };

  Call(WaitRoom& its_room, ReserveOp reserve, Deadline rpc_deadline, Deadline wait_limit,
       Done callback)
      : room(its_room),
        id(reserve.id),
        deadline(rpc_deadline),
        limit(wait_limit),
        done(std::move(callback)),
        op(std::move(reserve)) {}

  WaitRoom& room;
  const RecordId id;
  const Deadline deadline;
  const Deadline limit;
  const Done done;

  // With the batcher while the store is asked, otherwise here.
  ReserveOp op;
  // Set while the op is with the batcher, whose callback is a plain pointer.
  CallPtr self;

  // Changed under the mutex of the room.
  std::atomic<Caller> caller{Caller::kWaits};
  // Set while it waits; under the mutex.
  std::optional<Seat> seat;
  MemoryBudget::Hold held;
  // It has gone to the store on behalf of its room. Set before it goes, and
  // cleared by its answer.
  bool trying = false;
};

WaitRoom::WaitRoom(Batcher& batcher, Observer& observer, const WaitRoomOptions& options)
    : batcher_(batcher), observer_(observer), options_(options) {
  const auto seed = std::chrono::steady_clock::now().time_since_epoch().count();
  jitter_.seed(static_cast<std::minstd_rand::result_type>(seed));
  MutexLock lock(join_mutex_);
  timer_ = std::thread([this] { RunTimer(); });
}

WaitRoom::~WaitRoom() {
  Close();
  MutexLock lock(mutex_);
  while (callbacks_.load() > 0) callbacks_done_.Wait(lock);
}

WaitRoom::CallPtr WaitRoom::NewCall(ReserveOp op, Deadline deadline, absl::Duration max_wait,
                                    Done done) {
  const absl::Duration wait = std::clamp(max_wait, absl::ZeroDuration(), limits::kMaxWait);
  const Deadline limit = std::min(options_.clock->Monotonic() + absl::ToChronoNanoseconds(wait),
                                  deadline - absl::ToChronoNanoseconds(kAnswerMargin));
  return std::make_shared<Call>(*this, std::move(op), deadline, limit, std::move(done));
}

const ReserveOp& WaitRoom::OpOf(const CallPtr& call) { return call->op; }

void WaitRoom::Start(const CallPtr& call, Batcher::Group* group) { SendTry(call, group); }

void WaitRoom::StopWaiting(const CallPtr& call) {
  Todo todo;
  {
    MutexLock lock(mutex_);
    if (call->caller.load() == Call::Caller::kWaits) call->caller = Call::Caller::kTakesAnswer;
    AnswerCancelled(call, todo);
  }
  Do(std::move(todo));
}

void WaitRoom::Cancel(const CallPtr& call) {
  Todo todo;
  {
    MutexLock lock(mutex_);
    call->caller = Call::Caller::kGone;
    observer_.CallerLeft();
    AnswerCancelled(call, todo);
  }
  Do(std::move(todo));
}

void WaitRoom::AnswerCancelled(const CallPtr& call, Todo& todo) {
  if (!call->seat.has_value()) return;
  Room& room = rooms_.at(call->id);
  StandUp(room, call);
  Settle(call->id, room);
  todo.answers.emplace_back(call, absl::CancelledError());
}

void WaitRoom::Moved(const RecordId& id) {
  if (open_rooms_.load() == 0) return;
  Todo todo;
  {
    MutexLock lock(mutex_);
    const auto found = rooms_.find(id);
    if (found == rooms_.end()) return;
    Room& room = found->second;
    if (room.reading || room.trying) {
      room.moved = true;
    } else {
      ReadNow(id, room, /*confirming=*/true, todo);
    }
    Settle(id, room);
  }
  Do(std::move(todo));
}

void WaitRoom::Close() {
  Todo todo;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    while (!limits_.empty()) {
      const CallPtr call = limits_.begin()->second;
      Room& room = rooms_.at(call->id);
      todo.answers.emplace_back(call, StillInFlight(room));
      StandUp(room, call);
      Settle(call->id, room);
    }
    timer_wakes_.NotifyAll();
  }
  Do(std::move(todo));
  MutexLock lock(join_mutex_);
  if (timer_.joinable()) timer_.join();
}

// What the batcher answers.

void WaitRoom::Answered(const CallPtr& call, absl::StatusOr<Verdict> answer) {
  const auto* const reserved = answer.ok() ? std::get_if<Reserved>(&*answer) : nullptr;
  const auto* const in_flight = answer.ok() ? std::get_if<InFlight>(&*answer) : nullptr;
  // Most calls have nothing to do with any room.
  if (in_flight == nullptr && !call->trying && call->caller.load() != Call::Caller::kGone) {
    return call->done(std::move(answer));
  }
  Todo todo;
  std::optional<Reserved> unwanted;
  {
    MutexLock lock(mutex_);
    const bool sits = in_flight != nullptr && SitDown(call, *in_flight);
    if (std::exchange(call->trying, false)) Learn(call->id, answer, todo);
    if (!sits) {
      const bool gone = call->caller.load() == Call::Caller::kGone;
      if (gone && reserved != nullptr && !call->op.request_token) unwanted = *reserved;
      if (gone) answer = absl::CancelledError();
      todo.answers.emplace_back(call, std::move(answer));
    }
  }
  if (unwanted.has_value()) GiveBack(call, *unwanted);
  Do(std::move(todo));
}

void WaitRoom::ReadDone(const RecordId& id, absl::StatusOr<Record> record) {
  Todo todo;
  {
    MutexLock lock(mutex_);
    --reads_;
    Room& room = rooms_.at(id);
    room.reading = false;
    if (!std::exchange(room.confirming, false)) {
      LearnWhetherToConfirm(id, room, record, todo);
    } else if (record.ok()) {
      LearnFromRecord(room, std::make_shared<const Record>(*std::move(record)), todo);
    } else {
      LearnFromError(room, record.status(), todo);
    }
    if (std::exchange(room.moved, false) && !room.trying && !room.reading) {
      ReadNow(id, room, /*confirming=*/true, todo);
    }
    Settle(id, room);
    // A read that the timer held back may go now.
    timer_wakes_.NotifyOne();
  }
  Do(std::move(todo));
}

// What the answers mean.

void WaitRoom::Learn(const RecordId& id, const absl::StatusOr<Verdict>& answer, Todo& todo) {
  Room& room = rooms_.at(id);
  room.trying = false;
  const bool moved = std::exchange(room.moved, false);
  // One branch per outcome, alike or not. NOLINTNEXTLINE(bugprone-branch-clone)
  if (absl::IsCancelled(answer.status())) {
    // It never got to the store.
    ReadNow(id, room, /*confirming=*/true, todo);
  } else if (!answer.ok()) {
    ReadLater(room);
    // One try per pause while the store cannot answer, also after the lease.
    room.lease_end = std::max(room.lease_end, room.next_read);
  } else if (const auto* const reserved = std::get_if<Reserved>(&*answer)) {
    LeaseRuns(room, InFlight{reserved->lease_remaining, reserved->attempt});
    if (moved) ReadNow(id, room, /*confirming=*/true, todo);
  } else if (!std::holds_alternative<InFlight>(*answer) || moved) {
    // It is settled, so the record can tell the others.
    ReadNow(id, room, /*confirming=*/true, todo);
  }
  Settle(id, room);
}

void WaitRoom::LearnWhetherToConfirm(const RecordId& id, Room& room,
                                     const absl::StatusOr<Record>& found, Todo& todo) {
  if (!found.ok() && ReasonOf(found.status()) != Reason::kRecordDamaged) {
    return LearnFromError(room, found.status(), todo);
  }
  const bool proves =
      found.ok() &&
      std::any_of(room.waiters.begin(), room.waiters.end(), [&found](const auto& waiter) {
        return ProofFrom(*found, waiter.second->op).has_value();
      });
  if (!found.ok() || proves) {
    ReadNow(id, room, /*confirming=*/true, todo);
  } else {
    // A reservation is confirmed by itself.
    WaitOrTry(room, *found, todo);
  }
}

void WaitRoom::LearnFromRecord(Room& room, std::shared_ptr<const Record> record, Todo& todo) {
  std::vector<CallPtr> proved;
  for (const auto& [seat, call] : room.waiters) {
    if (seat >= room.read_before) break;
    if (ProofFrom(*record, call->op).has_value()) proved.push_back(call);
  }
  for (const CallPtr& call : proved) {
    StandUp(room, call);
    todo.proved.emplace_back(call, record);
  }
  WaitOrTry(room, *record, todo);
}

void WaitRoom::WaitOrTry(Room& room, const Record& record, Todo& todo) {
  const RecordState running = room.paused ? RecordState::kReleased : RecordState::kReserved;
  if (record.state == running && record.attempt == room.attempt) {
    ReadLater(room);
  } else {
    TryFirst(room, todo);
  }
}

void WaitRoom::LearnFromError(Room& room, const absl::Status& error, Todo& todo) {
  const std::optional<Reason> reason = ReasonOf(error);
  if (reason == Reason::kRecordNotFound || reason == Reason::kRecordIdCollision) {
    // A reservation decides what that means.
    TryFirst(room, todo);
  } else if (reason == Reason::kRecordDamaged) {
    while (!room.waiters.empty()) {
      const CallPtr call = room.waiters.begin()->second;
      StandUp(room, call);
      todo.answers.emplace_back(call, error);
    }
  } else {
    ReadLater(room);
  }
}

void WaitRoom::LeaseRuns(Room& room, const InFlight& in_flight) {
  const Deadline now = options_.clock->Monotonic();
  if (room.attempt != in_flight.attempt || room.paused != in_flight.paused) {
    room.pause = options_.first_pause;
    room.next_read = now + absl::ToChronoNanoseconds(room.pause);
  }
  room.attempt = in_flight.attempt;
  room.paused = in_flight.paused;
  room.lease_end =
      now + absl::ToChronoNanoseconds(std::max(in_flight.lease_remaining, kShortestLease));
}

// Seats.

bool WaitRoom::SitDown(const CallPtr& call, const InFlight& in_flight) {
  if (closed_ || call->caller.load() != Call::Caller::kWaits ||
      options_.clock->Monotonic() >= call->limit) {
    return false;
  }
  const std::string& name_space = call->op.key.name_space;
  const std::size_t left = options_.max_waiters - std::min(options_.max_waiters, seats_.total());
  if (!seats_.MayTake(name_space, 1, left)) return false;
  std::optional<MemoryBudget::Hold> held =
      batcher_.budget().TryHoldWaiter(name_space, Batcher::BytesOf(call->op));
  if (!held.has_value()) return false;
  call->held = *std::move(held);
  seats_.Add(name_space, 1);
  const Seat seat = next_seat_++;
  call->seat = seat;
  Room& room = rooms_[call->id];
  open_rooms_ = rooms_.size();
  room.waiters.emplace(seat, call);
  limits_.emplace(std::make_pair(call->limit, seat), call);
  LeaseRuns(room, in_flight);
  Settle(call->id, room);
  observer_.WaitersChanged(limits_.size());
  if (limits_.begin()->second == call) timer_wakes_.NotifyOne();
  return true;
}

void WaitRoom::StandUp(Room& room, const CallPtr& call) {
  const Seat seat = *std::exchange(call->seat, std::nullopt);
  limits_.erase({call->limit, seat});
  seats_.Remove(call->op.key.name_space, 1);
  call->held.Release();
  observer_.WaitersChanged(limits_.size());
  room.waiters.erase(seat);
}

Verdict WaitRoom::StillInFlight(const Room& room) const {
  const auto left = absl::FromChrono(room.lease_end - options_.clock->Monotonic());
  return InFlight{std::max(left, absl::ZeroDuration()), room.attempt, room.paused};
}

// What to look at next.

void WaitRoom::TryFirst(Room& room, Todo& todo) {
  if (room.waiters.empty()) return;
  const CallPtr call = room.waiters.begin()->second;
  StandUp(room, call);
  call->trying = true;
  room.trying = true;
  todo.tries.push_back(call);
}

void WaitRoom::ReadNow(const RecordId& id, Room& room, bool confirming, Todo& todo) {
  if (room.waiters.empty()) return;
  room.reading = true;
  room.confirming = confirming;
  room.read_before = next_seat_;
  ++reads_;
  todo.reads.push_back({id, room.waiters.begin()->second->op.key, confirming});
}

void WaitRoom::ReadLater(Room& room) {
  // 0.8 to 1.2 of the pause, so that replicas do not read in step.
  const double factor = std::uniform_real_distribution<double>(0.8, 1.2)(jitter_);
  room.next_read = options_.clock->Monotonic() + absl::ToChronoNanoseconds(room.pause * factor);
  room.pause = std::min(room.pause * 2, options_.longest_pause);
}

void WaitRoom::Settle(const RecordId& id, Room& room) {
  const bool busy = room.reading || room.trying;
  if (room.due != Batcher::kNoDeadline) due_.erase({room.due, id});
  if (room.waiters.empty() && !busy) {
    rooms_.erase(id);
    open_rooms_ = rooms_.size();
    return;
  }
  room.due = Batcher::kNoDeadline;
  if (busy || room.waiters.empty()) return;
  room.due = std::min(room.next_read, room.lease_end);
  due_.emplace(room.due, id);
  if (due_.begin()->second == id) timer_wakes_.NotifyOne();
}

// Outside the lock.

void WaitRoom::Do(Todo todo) {
  const AnswerScope scope;
  for (auto& [call, answer] : todo.answers) call->done(std::move(answer));
  for (const auto& [call, record] : todo.proved) {
    call->done(VerdictOf(*ProofFrom(*record, call->op), *record));
  }
  for (const CallPtr& call : todo.tries) SendTry(call);
  for (GetOp& op : todo.reads) SendRead(std::move(op));
}

void WaitRoom::SendTry(const CallPtr& call, Batcher::Group* group) {
  // One that stood up to try on behalf of its room waited until now.
  const Call::Caller caller = call->caller.load();
  if (caller == Call::Caller::kGone || (call->trying && caller != Call::Caller::kWaits)) {
    Answered(call, absl::CancelledError());
    return;
  }
  CallbackBegins();
  call->self = call;
  // A pointer fits into the callback without memory of its own.
  const auto answered = [returned = call.get()](absl::StatusOr<Verdict> answer, ReserveOp op) {
    const CallPtr asked = std::move(returned->self);
    asked->op = std::move(op);
    WaitRoom& room = asked->room;
    room.Answered(asked, std::move(answer));
    room.CallbackReturns();
  };
  if (call->trying) {
    batcher_.ReserveForWaiter(std::move(call->op), call->deadline, answered);
  } else {
    batcher_.Reserve(std::move(call->op), call->deadline, answered, group);
  }
}

void WaitRoom::SendRead(GetOp op) {
  CallbackBegins();
  const RecordId id = op.id;
  batcher_.GetForWaiter(std::move(op), [this, id](absl::StatusOr<Record> record) {
    ReadDone(id, std::move(record));
    CallbackReturns();
  });
}

void WaitRoom::GiveBack(const CallPtr& call, const Reserved& grant) {
  CallbackBegins();
  // This attempt did nothing. But where an earlier one left its outcome open,
  // the record must go on asking for recovery.
  ReleaseOp op{call->op.key, call->id, grant.token, "the caller hung up before the grant",
               /*outcome_unknown=*/grant.recovering};
  // If it fails, the lease ends by itself.
  batcher_.Release(std::move(op), Batcher::kNoDeadline, [this, id = call->id](const absl::Status&) {
    Moved(id);
    CallbackReturns();
  });
}

void WaitRoom::CallbackReturns() {
  std::size_t before = callbacks_.load();
  while (before > 1) {
    if (callbacks_.compare_exchange_weak(before, before - 1)) return;
  }
  // Under the lock, so that the destructor cannot end before this does.
  MutexLock lock(mutex_);
  if (callbacks_.fetch_sub(1) == 1) callbacks_done_.NotifyAll();
}

// The timer.

void WaitRoom::RunTimer() {
  pthread_setname_np(pthread_self(), "wait-room");
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

WaitRoom::Deadline WaitRoom::NextDue() const {
  Deadline due = limits_.empty() ? Batcher::kNoDeadline : limits_.begin()->first.first;
  if (!due_.empty() && reads_ < options_.max_reads) due = std::min(due, due_.begin()->first);
  return due;
}

WaitRoom::Todo WaitRoom::TakeDue() {
  Todo todo;
  const Deadline now = options_.clock->Monotonic();
  while (!limits_.empty() && limits_.begin()->first.first <= now) {
    const CallPtr call = limits_.begin()->second;
    Room& room = rooms_.at(call->id);
    todo.answers.emplace_back(call, StillInFlight(room));
    StandUp(room, call);
    Settle(call->id, room);
  }
  while (!due_.empty() && due_.begin()->first <= now && reads_ < options_.max_reads) {
    const RecordId id = due_.begin()->second;
    Room& room = rooms_.at(id);
    if (room.lease_end <= now) {
      TryFirst(room, todo);
    } else {
      ReadNow(id, room, /*confirming=*/false, todo);
    }
    Settle(id, room);
  }
  return todo;
}

}  // namespace idempotency::internal
