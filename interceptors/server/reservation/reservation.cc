#include "interceptors/server/reservation/reservation.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "core/answer_kind.h"
#include "core/arena_message.h"
#include "core/request_rules.h"
#include "core/wire_time.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/reply.h"
#include "interceptors/server/wire/guard_errors.h"

namespace idempotency::internal {
namespace {

using Time = Scheduler::Time;

// True if the store has answered that this token no longer holds the record.
bool IsLost(const absl::Status& status) {
  const auto reason = ReasonOf(status);
  return reason == Reason::kReservationLost || reason == Reason::kRecordNotFound;
}

// The least throughput to the store for which a try has enough time: 8 Mbit/s.
constexpr std::size_t kReplyBytesPerSecond = 1024 * 1024;

// A try with the largest reply (limits::kMaxReplyBytes) has 10 s, a third of the default lease,
// which heartbeats extend meanwhile.
absl::Duration TryTimeoutFor(const v1::Reply& reply) {
  return kTryTimeout + absl::Seconds(1) * (static_cast<double>(ReplyBytes(reply)) /
                                           static_cast<double>(kReplyBytesPerSecond));
}

absl::Status NotRecorded() {
  return MakeError(Reason::kOutcomeNotRecorded,
                   "the operation finished, but its outcome is not recorded yet: call again with "
                   "the same idempotency key");
}

}  // namespace

std::shared_ptr<Reservation> Reservation::Make(SharedStoreContext context, Grant grant,
                                               absl::Duration caller_timeout) {
  return std::make_shared<Reservation>(PassKey<Reservation>(), std::move(context), std::move(grant),
                                       caller_timeout);
}

Reservation::Reservation(PassKey<Reservation> /*key*/, SharedStoreContext context, Grant grant,
                         absl::Duration caller_timeout)
    : context_(std::move(context)),
      grant_(std::move(grant)),
      caller_timeout_(caller_timeout),
      beats_until_(After(context_->scheduler.Now(), grant_.max_lease)),
      hold_(context_->recordings->Begin()),
      lease_deadline_(grant_.lease_deadline),
      backoff_(kFirstRepeat, kLongestRepeat),
      recovering_(grant_.answer->reserved().recovering()) {}

void Reservation::Start() {
  MutexLock lock(mutex_);
  // From the remaining lease: a repeated grant may be close to its end.
  const absl::Duration left = absl::FromChrono(lease_deadline_ - context_->scheduler.Now());
  ScheduleBeat(After(context_->scheduler.Now(), std::min(left, grant_.lease) / 3));
}

bool Reservation::lost() const {
  MutexLock lock(mutex_);
  return !loss_.ok() || context_->scheduler.Now() >= lease_deadline_;
}

bool Reservation::refused() const { return !loss().ok(); }

absl::Status Reservation::loss() const {
  MutexLock lock(mutex_);
  return loss_;
}

void Reservation::OnLost(Lost on_lost) {
  {
    MutexLock lock(mutex_);
    if (!lost_notified_) {
      if (phase_ != Phase::kEnded) on_lost_.push_back(std::move(on_lost));
      return;
    }
  }
  on_lost(*this);
}

void Reservation::NotifyLost() {
  absl::InlinedVector<Lost, 1> on_lost;
  {
    MutexLock lock(mutex_);
    lost_notified_ = true;
    on_lost.swap(on_lost_);
  }
  for (Lost& call : on_lost) call(*this);
}

void Reservation::NoteRefused(const absl::Status& refusal) {
  {
    MutexLock lock(mutex_);
    loss_ = LossOf(refusal);
  }
  NotifyLost();
}

void Reservation::WatchLease() {
  lease_watch_ = context_->scheduler.RunAt(
      lease_deadline_, [self = shared_from_this()] { self->OnLeaseDeadline(); });
}

void Reservation::OnLeaseDeadline() {
  {
    MutexLock lock(mutex_);
    lease_watch_ = 0;
    if (phase_ != Phase::kRunning) return;
    if (context_->scheduler.Now() < lease_deadline_) {
      WatchLease();
      return;
    }
  }
  NotifyLost();
}

void Reservation::ScheduleBeat(Time when) {
  // Once the outcome is known, the lease is extended for as long as the recording takes, so
  // that the operation does not run again.
  if (phase_ == Phase::kRunning && when >= beats_until_) {
    beats_over_ = true;
    return;
  }
  beat_ = context_->scheduler.RunAt(when, [self = shared_from_this()] { self->Beat(); });
}

v1::ExtendRequest Reservation::MakeExtend(absl::Duration lease) const {
  v1::ExtendRequest request;
  *request.mutable_record_key() = grant_.request->record_key();
  request.set_reservation_token(token());
  *request.mutable_lease() = ToWire(lease);
  return request;
}

void Reservation::Beat() {
  {
    MutexLock lock(mutex_);
    if (!loss_.ok() || (phase_ != Phase::kRunning && phase_ != Phase::kCompleting)) return;
    // Not before: a call that ends within a third of its lease, as nearly all do, needs no
    // watch.
    if (phase_ == Phase::kRunning && lease_watch_ == 0 && !lost_notified_) WatchLease();
  }
  const Time sent = context_->scheduler.Now();
  context_->connection.Extend(
      MakeExtend(grant_.lease), After(sent, std::min(grant_.lease, kTryTimeout)),
      [self = shared_from_this(), sent](auto answer) { self->OnExtended(sent, answer); });
}

void Reservation::OnExtended(Time sent, const absl::StatusOr<v1::ExtendResponse>& answer) {
  NoteExtended(sent, answer);
  MutexLock lock(mutex_);
  if (!loss_.ok() || (phase_ != Phase::kRunning && phase_ != Phase::kCompleting)) return;
  // Nothing is left to extend; Complete gets the same answer, or has settled the record.
  if (IsLost(answer.status())) return;
  // Soon again after a failure: with an unstable store, many tries save the lease. But never so
  // often that they flood it.
  ScheduleBeat(answer.ok()
                   ? After(sent, grant_.lease / 3)
                   : After(context_->scheduler.Now(), std::min(grant_.lease / 10, kLongestRepeat)));
}

void Reservation::NoteExtended(Time sent, const absl::StatusOr<v1::ExtendResponse>& answer) {
  if (IsLost(answer.status())) {
    {
      MutexLock lock(mutex_);
      // The own Complete or Release may have settled the record, and its answer may come later:
      // that one decides.
      if (phase_ != Phase::kRunning) return;
      loss_ = LossOf(answer.status());
    }
    NotifyLost();
    return;
  }
  if (!answer.ok()) return;
  MutexLock lock(mutex_);
  lease_deadline_ = std::max(lease_deadline_, After(sent, FromWire(answer->lease_remaining())));
}

absl::Status Reservation::CheckpointRefusal(const std::string& progress) {
  if (progress.empty()) return InvalidField("checkpoint", "is empty");
  if (absl::Status valid = ValidateCheckpoint(progress); !valid.ok()) return valid;
  MutexLock lock(mutex_);
  if (!loss_.ok()) return loss_;
  const bool over = beats_over_ && context_->scheduler.Now() >= lease_deadline_;
  return phase_ != Phase::kRunning || over ? ReservationLost() : absl::OkStatus();
}

void Reservation::Checkpoint(std::string progress, Stored done) {
  const absl::Status refusal = CheckpointRefusal(progress);
  if (!refusal.ok()) {
    done(refusal);
    return;
  }
  std::shared_ptr<CheckpointQueue> queue;
  {
    MutexLock lock(mutex_);
    if (checkpoints_ == nullptr) {
      // Weak: this object owns the queue.
      checkpoints_ = CheckpointQueue::Make(
          context_->scheduler, caller_timeout_,
          [weak = weak_from_this()](const std::string& waiting, Stored answered) {
            if (const auto self = weak.lock()) {
              self->SendCheckpoint(waiting, std::move(answered));
            } else {
              answered(ReservationLost());
            }
          });
    }
    queue = checkpoints_;
  }
  queue->Push(std::move(progress), std::move(done));
}

void Reservation::SendCheckpoint(const std::string& progress, Stored answered) {
  const Time sent = context_->scheduler.Now();
  // After max_lease a checkpoint must not extend the lease.
  v1::ExtendRequest request = MakeExtend(sent < beats_until_ ? grant_.lease : limits::kMinLease);
  request.set_checkpoint(progress);
  context_->connection.Extend(
      request, After(sent, kTryTimeout),
      [self = shared_from_this(), sent, answered = std::move(answered)](auto answer) {
        self->NoteExtended(sent, answer);
        answered(IsLost(answer.status()) ? LossOf(answer.status()) : answer.status());
      });
}

std::shared_ptr<v1::CompleteRequest> Reservation::MakeComplete(
    std::unique_ptr<v1::Reply> reply) const {
  auto request = MakeArenaMessage<v1::CompleteRequest>();
  // Not a copy. grant_.request lives as long as this reservation, which the users of the request
  // hold; a message on an arena frees no part that is outside of it, and nothing changes this one.
  request->unsafe_arena_set_allocated_record_key(
      const_cast<v1::RecordKey*>(&grant_.request->record_key()));
  request->set_reservation_token(token());
  // Not a copy in the arena: a reply may be large.
  request->set_allocated_reply(reply.release());
  return request;
}

void Reservation::OnLeftOpen(LeftOpen on_left_open) {
  MutexLock lock(mutex_);
  on_left_open_ = std::move(on_left_open);
}

void Reservation::NotifyLeftOpen() {
  LeftOpen on_left_open;
  {
    MutexLock lock(mutex_);
    on_left_open = std::exchange(on_left_open_, nullptr);
  }
  // The next attempt may run in any case.
  const bool may_take_over = grant_.request->on_lease_expiry() == v1::LEASE_EXPIRY_TAKE_OVER;
  if (on_left_open && (answer().reserved().recovering() || !may_take_over)) {
    on_left_open(*grant_.request);
  }
}

void Reservation::NoteRecovered() {
  MutexLock lock(mutex_);
  recovering_ = false;
}

void Reservation::KeepUntilEnd(std::shared_ptr<void> place) {
  MutexLock lock(mutex_);
  if (phase_ != Phase::kEnded) kept_until_end_ = std::move(place);
}

void Reservation::Complete(std::unique_ptr<v1::Reply> reply, Completed done) {
  bool stopped = false;
  {
    MutexLock lock(mutex_);
    phase_ = Phase::kCompleting;
    complete_ = MakeComplete(std::move(reply));
    completed_ = std::move(done);
    if (beats_over_) {
      ScheduleBeat(After(context_->scheduler.Now(), std::min(grant_.lease / 10, kLongestRepeat)));
    }
    caller_timer_ = context_->scheduler.RunAtOrWhenStopped(
        After(context_->scheduler.Now(), caller_timeout_),
        [self = shared_from_this()] { self->FinishComplete(NotRecorded()); });
    stopped = caller_timer_ == 0;
  }
  TryComplete();
  // Nothing would repeat the try.
  if (stopped) FinishComplete(NotRecorded());
}

void Reservation::TryComplete() {
  std::shared_ptr<v1::CompleteRequest> request;
  {
    MutexLock lock(mutex_);
    if (phase_ != Phase::kCompleting) return;
    request = complete_;
  }
  const Time deadline = After(context_->scheduler.Now(), TryTimeoutFor(request->reply()));
  const ReplayCache::Moment sent_at = ReplayCache::NowOf(context_->replays.get());
  context_->connection.Complete(*request, deadline,
                                [self = shared_from_this(), request, sent_at](auto answer) {
                                  self->KeepReply(*request, answer, sent_at);
                                  self->OnCompleted(std::move(answer));
                                });
}

void Reservation::KeepReply(v1::CompleteRequest& request,
                            const absl::StatusOr<v1::CompleteResponse>& answer,
                            ReplayCache::Moment sent_at) const {
  if (context_->replays == nullptr || !answer.ok()) return;
  context_->replays->KeepReply(*grant_.request, this->answer(), request, *answer, sent_at);
}

void Reservation::OnCompleted(absl::StatusOr<v1::CompleteResponse> answer) {
  if (MayRejectContent(answer.status())) return ProbeRefusal(answer.status());
  const bool is_lost = IsLost(answer.status());
  const bool acknowledged = answer.ok();
  if (is_lost) NoteRefused(answer.status());
  OutstandingWork::Hold hold;
  {
    MutexLock lock(mutex_);
    content_rejection_.OnOtherAnswer();
    const bool without_content = content_rejection_.IsCertain(answer.status());
    // A refusal of the guard itself is temporary: the lease is extended until it is corrected.
    const bool repeats = IsTemporary(answer.status()) || without_content;
    if (!is_lost && repeats) {
      if (without_content) {
        DropContent(answer.status());
      } else if (RefusesCaller(answer.status())) {
        LogRefusal("Complete", answer.status());
      }
      RepeatComplete();
      return;
    }
    if (!answer.ok() && !is_lost) {
      context_->log->Error(LogEvent::kNotRecorded, "the store permanently refuses an outcome (",
                           absl::StatusCodeToString(answer.status().code()), " ",
                           answer.status().message(), "): it is not recorded");
      answer = NotRecorded();
    }
    hold = End();
  }
  if (!acknowledged) NotifyLeftOpen();
  if (is_lost) answer = LossOf(answer.status());
  FinishComplete(answer);
}

void Reservation::LogRefusal(const char* request, const absl::Status& refusal) const {
  context_->log->Error(LogEvent::kRequestRefused, "idempotencyd refuses the guard's ", request,
                       ": ", absl::StatusCodeToString(refusal.code()), " ", refusal.message(),
                       "; it is repeated");
}

void Reservation::RepeatComplete() {
  context_->scheduler.RunAt(After(context_->scheduler.Now(), backoff_.Next()),
                            [self = shared_from_this()] { self->TryComplete(); });
}

bool Reservation::MayRejectContent(const absl::Status& refusal) const {
  MutexLock lock(mutex_);
  return content_rejection_.IsPossible(refusal, complete_->reply());
}

void Reservation::ProbeRefusal(const absl::Status& refusal) {
  const Time sent = context_->scheduler.Now();
  context_->connection.Extend(MakeExtend(grant_.lease), After(sent, kTryTimeout),
                              [self = shared_from_this(), sent, refusal](const auto& answer) {
                                self->OnRefusalProbed(sent, refusal, answer);
                              });
}

void Reservation::OnRefusalProbed(Time sent, const absl::Status& refusal,
                                  const absl::StatusOr<v1::ExtendResponse>& answer) {
  NoteExtended(sent, answer);
  const bool small_requests_pass = answer.ok() || IsLost(answer.status());
  MutexLock lock(mutex_);
  if (content_rejection_.OnProbed(small_requests_pass)) {
    DropContent(refusal);
  } else if (RefusesCaller(refusal)) {
    LogRefusal("Complete", refusal);
  }
  RepeatComplete();
}

void Reservation::DropContent(const absl::Status& refusal) {
  const absl::StatusCode code = CodeWithoutReason(refusal).value_or(refusal.code());
  context_->log->Error(LogEvent::kReplyNotKept, "the store refuses a reply of ",
                       ReplyBytes(complete_->reply()), " bytes (", absl::StatusCodeToString(code),
                       "): it is recorded without its content");
  content_rejection_.OnDropped();
  complete_ = MakeComplete(std::make_unique<v1::Reply>(WithoutContent(complete_->reply())));
}

void Reservation::FinishComplete(const absl::StatusOr<v1::CompleteResponse>& outcome) {
  Completed done;
  {
    MutexLock lock(mutex_);
    done = std::exchange(completed_, nullptr);
    context_->scheduler.Cancel(caller_timer_);
  }
  if (done) done(outcome);
}

void Reservation::Release(std::string reason, v1::ReleaseOutcome outcome, Released done,
                          absl::Duration pause) {
  bool stopped = false;
  {
    MutexLock lock(mutex_);
    phase_ = Phase::kReleasing;
    *release_.mutable_record_key() = grant_.request->record_key();
    release_.set_reservation_token(token());
    release_.set_reason(std::move(reason));
    release_.set_outcome(outcome);
    if (pause > absl::ZeroDuration()) *release_.mutable_pause() = ToWire(pause);
    released_ = std::move(done);
    caller_timer_ = context_->scheduler.RunAtOrWhenStopped(
        After(context_->scheduler.Now(), caller_timeout_),
        [self = shared_from_this()] { self->FinishRelease(); });
    stopped = caller_timer_ == 0;
  }
  TryRelease();
  // Nothing would repeat the try.
  if (stopped) FinishRelease();
}

void Reservation::GiveBack(std::string reason, Released done) {
  bool recovering = false;
  {
    MutexLock lock(mutex_);
    recovering = recovering_;
  }
  Release(std::move(reason),
          recovering ? v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN : v1::RELEASE_OUTCOME_NOTHING_HAPPENED,
          std::move(done));
}

void Reservation::TryRelease() {
  v1::ReleaseRequest request;
  {
    MutexLock lock(mutex_);
    if (phase_ != Phase::kReleasing) return;
    request = release_;
  }
  context_->connection.Release(
      request, After(context_->scheduler.Now(), kTryTimeout),
      [self = shared_from_this()](const auto& answer) { self->OnReleased(answer.status()); });
}

void Reservation::OnReleased(const absl::Status& answer) {
  if (IsLost(answer)) NoteRefused(answer);
  bool is_unknown = false;
  OutstandingWork::Hold hold;
  {
    MutexLock lock(mutex_);
    is_unknown = release_.outcome() == v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN;
    const Time again = After(context_->scheduler.Now(), backoff_.Next());
    if (IsTemporary(answer) && again < ReleaseUntil()) {
      if (again >= lease_deadline_) {
        // Worth a try, but neither a wait at the guard's end nor an alarm.
        hold_.reset();
        on_lost_.clear();
      }
      if (RefusesCaller(answer)) LogRefusal("Release", answer);
      context_->scheduler.RunAt(again, [self = shared_from_this()] { self->TryRelease(); });
      return;
    }
    if (!answer.ok()) {
      context_->log->Warn(LogEvent::kNotReleased, "a reservation could not be released (",
                          absl::StatusCodeToString(answer.code()), "): it ends with its lease");
    }
    // An unanswered release stays open, and one that was only refused for the moment: an earlier
    // try may have reached the store.
    if (!IsTemporary(answer)) {
      release_answer_ = IsLost(answer) ? LossOf(answer) : answer;
    }
    hold = End();
  }
  if (!answer.ok() || is_unknown) NotifyLeftOpen();
  FinishRelease();
}

Reservation::Time Reservation::ReleaseUntil() const {
  // After the lease the next attempt may run in any case, or the outcome counts as unknown. The
  // store still accepts that nothing happened, unless its sweep or another caller has found the
  // outcome unknown first, or an attempt has taken over.
  const bool still_needed = release_.outcome() == v1::RELEASE_OUTCOME_NOTHING_HAPPENED &&
                            grant_.request->on_lease_expiry() != v1::LEASE_EXPIRY_TAKE_OVER;
  return still_needed ? After(lease_deadline_, kReleaseAfterLease) : lease_deadline_;
}

absl::Status Reservation::release_answer() const {
  MutexLock lock(mutex_);
  if (release_answer_.has_value()) return *release_answer_;
  return MakeError(Reason::kOutcomeNotRecorded,
                   "the reservation was released, but the store has not acknowledged that: it ends "
                   "with its lease at the latest");
}

void Reservation::FinishRelease() {
  Released done;
  {
    MutexLock lock(mutex_);
    done = std::exchange(released_, nullptr);
    context_->scheduler.Cancel(caller_timer_);
  }
  if (done) done();
}

void Reservation::LetLapse() {
  OutstandingWork::Hold hold;
  {
    MutexLock lock(mutex_);
    hold = End();
  }
  NotifyLeftOpen();
}

OutstandingWork::Hold Reservation::End() {
  phase_ = Phase::kEnded;
  context_->scheduler.Cancel(beat_);
  context_->scheduler.Cancel(lease_watch_);
  on_lost_.clear();
  kept_until_end_.reset();
  return std::move(hold_);
}

}  // namespace idempotency::internal
