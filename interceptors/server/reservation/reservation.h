#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_RESERVATION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_RESERVATION_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/backoff.h"
#include "core/mutex.h"
#include "core/pass_key.h"
#include "grpc_idempotency/limits.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "interceptors/server/connection/replay_cache.h"
#include "interceptors/server/reservation/checkpoint_queue.h"
#include "interceptors/server/reservation/content_rejection.h"
#include "interceptors/server/reservation/store_context.h"

namespace idempotency::internal {

// The lifecycle of one reservation, from its grant to its end: heartbeats at a third of the
// lease while the handler runs, up to max_lease, then exactly one of Complete, Release and
// LetLapse.
//
// It keeps itself alive until it has ended, and uses its own deadlines: neither a client's
// disconnection nor the end of the RPC stops it. Callbacks run on the connection's or the
// scheduler's thread and must not block. Thread-safe.
class Reservation final : public std::enable_shared_from_this<Reservation> {
 public:
  using Time = Scheduler::Time;
  using Completed = absl::AnyInvocable<void(const absl::StatusOr<v1::CompleteResponse>&)>;
  using Released = absl::AnyInvocable<void()>;
  using Stored = CheckpointQueue::Stored;
  using Lost = absl::AnyInvocable<void(const Reservation& lost)>;
  using LeftOpen = absl::AnyInvocable<void(const v1::ReserveRequest& request)>;

  struct Grant {
    std::shared_ptr<const v1::ReserveRequest> request;
    // The store's answer to it: `reserved`.
    std::shared_ptr<const v1::ReserveResponse> answer;
    absl::Duration lease;
    // By the guard's own clock, counted from before Reserve was sent.
    Time lease_deadline;
    // How long heartbeats continue while the handler runs, from Make().
    absl::Duration max_lease = limits::kDefaultMaxLease;
  };

  // The caller of Checkpoint, Complete and Release gets an answer after `caller_timeout` at the
  // latest.
  static std::shared_ptr<Reservation> Make(SharedStoreContext context, Grant grant,
                                           absl::Duration caller_timeout);

  // The answer that granted it, and the request.
  const v1::ReserveResponse& answer() const { return *grant_.answer; }
  const v1::ReserveRequest& request() const { return *grant_.request; }
  const std::shared_ptr<const v1::ReserveRequest>& shared_request() const { return grant_.request; }

  // Starts the heartbeats.
  void Start();

  // True once the store has refused the token (to an Extend only while the handler runs, later to
  // Complete or Release), or while the lease has expired by the guard's
  // own clock: another attempt may be running.
  bool lost() const;
  // True once the store has refused the token.
  bool refused() const;
  // How the caller of the attempt learns that: ReservationLost() or RecordGone(). OK until then.
  absl::Status loss() const;

  // `on_lost` is called once, when the reservation is lost: its lease expires while the handler
  // runs, or the store refuses its token. Called at once if that has already happened; never if
  // the reservation ends before.
  void OnLost(Lost on_lost);

  // Stores the progress for the next attempt, and extends the lease as a heartbeat does. `done`
  // is called once, with
  //   OK                 durable
  //   REQUEST_INVALID    empty, or over limits::kMaxCheckpointBytes
  //   RESERVATION_LOST   (ABORTED) not stored: another attempt may run, this one has
  //                      answered, or the record does not exist any more (IsRecordGone)
  //   OVERLOADED         too many are waiting; not stored
  //   STORE_UNAVAILABLE  no answer within caller_timeout. It may still be stored.
  // Checkpoints are stored one after another, in the order given.
  void Checkpoint(std::string progress, Stored done);

  // `on_left_open` is called once if the reservation ends with an unknown outcome: released as
  // such, or, under REQUIRE_RECOVERY, without the store's acknowledgement of Complete or Release:
  // it was lost, refused for good, or is left to its lease. It gets the request that the grant
  // answers. Never called by the end of the guard. Call it before the reservation ends.
  void OnLeftOpen(LeftOpen on_left_open);

  // The earlier attempt whose outcome was unknown had no effect.
  void NoteRecovered();

  // Destroys `place` when the reservation ends; at once if it has ended.
  void KeepUntilEnd(std::shared_ptr<void> place);

  // Records the reply; repeated until the store has answered, also while it refuses the guard
  // itself (RefusesCaller). `done` is called once, with
  //   OK                    acknowledged: the reply is durable
  //   RESERVATION_LOST      (ABORTED) another attempt took over; this reply is not the record's.
  //                         Or no record exists any more (IsRecordGone): then none has another
  //   OUTCOME_NOT_RECORDED  no answer within caller_timeout. Recording continues, and the lease
  //                         is extended, until one of the above.
  // If the reply itself is rejected, it is completed without its content: a record that is done
  // is better than an operation that runs again. REQUEST_INVALID rejects it at once. A status
  // without a reason may come from something between guard and store: INVALID_ARGUMENT, and for
  // a large reply RESOURCE_EXHAUSTED, reject it once they have been repeated for some seconds, and
  // an extension of the lease was answered after each: a proxy that is busy refuses both.
  void Complete(std::unique_ptr<v1::Reply> reply, Completed done);

  // Releases the reservation; repeated as Complete, until the lease has expired. Where the end of
  // the lease would leave an unknown outcome although nothing happened (REQUIRE_RECOVERY), it is
  // repeated for kReleaseAfterLease more. `done` is called once: when it is answered, or given up,
  // or after caller_timeout; release_answer() then has the result. The record is not granted again
  // before `pause` has passed.
  void Release(std::string reason, v1::ReleaseOutcome outcome, Released done,
               absl::Duration pause = absl::ZeroDuration());

  // The same for an attempt whose handler has not run: nothing happened, unless the outcome of an
  // earlier attempt is still unknown.
  void GiveBack(std::string reason, Released done);

  // The result of Release:
  //   OK                    acknowledged
  //   RESERVATION_LOST      (ABORTED) another attempt holds the record, or it does not exist any
  //                         more (IsRecordGone)
  //   OUTCOME_NOT_RECORDED  not acknowledged; unless a repeat still is, the reservation ends
  //                         with its lease
  //   any other             the service refuses the request, and the reservation ends with its
  //                         lease
  absl::Status release_answer() const;

  // Stops the heartbeats; the reservation ends with its lease.
  void LetLapse();

  // For Make() alone.
  Reservation(PassKey<Reservation> key, SharedStoreContext context, Grant grant,
              absl::Duration caller_timeout);

 private:
  enum class Phase { kRunning, kCompleting, kReleasing, kEnded };

  void Beat();
  void OnExtended(Time sent, const absl::StatusOr<v1::ExtendResponse>& answer);
  // Not past max_lease while the handler runs.
  void ScheduleBeat(Time when) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteExtended(Time sent, const absl::StatusOr<v1::ExtendResponse>& answer);
  const std::string& token() const { return answer().reserved().reservation_token(); }
  v1::ExtendRequest MakeExtend(absl::Duration lease) const;
  std::shared_ptr<v1::CompleteRequest> MakeComplete(std::unique_ptr<v1::Reply> reply) const;

  // Checks the lease again at its deadline.
  void WatchLease() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnLeaseDeadline();
  void NoteRefused(const absl::Status& refusal);
  void NotifyLost();

  absl::Status CheckpointRefusal(const std::string& progress);
  void SendCheckpoint(const std::string& progress, Stored answered);

  void TryComplete();
  // Before the caller gets the answer. Takes the reply of an acknowledged request, which is not
  // sent again.
  void KeepReply(v1::CompleteRequest& request, const absl::StatusOr<v1::CompleteResponse>& answer,
                 ReplayCache::Moment sent_at) const;
  void OnCompleted(absl::StatusOr<v1::CompleteResponse> answer);
  void LogRefusal(const char* request, const absl::Status& refusal) const;
  void RepeatComplete() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True if the content of the reply may be the cause.
  bool MayRejectContent(const absl::Status& refusal) const;
  // Shows by a small request whether every request is refused, or the reply. At once, after the
  // reply: it takes no place from that under a limited rate.
  void ProbeRefusal(const absl::Status& refusal);
  void OnRefusalProbed(Time sent, const absl::Status& refusal,
                       const absl::StatusOr<v1::ExtendResponse>& answer);
  void DropContent(const absl::Status& refusal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishComplete(const absl::StatusOr<v1::CompleteResponse>& outcome);

  void TryRelease();
  void OnReleased(const absl::Status& answer);
  // When it is no longer repeated.
  Time ReleaseUntil() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishRelease();

  void NotifyLeftOpen();
  // The guard's end waits for what it returns: destroy it once the caller has its answer, which
  // that end would otherwise replace.
  [[nodiscard]] OutstandingWork::Hold End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SharedStoreContext context_;
  const Grant grant_;
  const absl::Duration caller_timeout_;
  const Time beats_until_;

  mutable Mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kRunning;
  OutstandingWork::Hold hold_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<void> kept_until_end_ ABSL_GUARDED_BY(mutex_);
  Time lease_deadline_ ABSL_GUARDED_BY(mutex_);
  // OK: the token is not refused.
  absl::Status loss_ ABSL_GUARDED_BY(mutex_);
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  Scheduler::TaskId beat_ ABSL_GUARDED_BY(mutex_) = 0;
  // max_lease is over.
  bool beats_over_ ABSL_GUARDED_BY(mutex_) = false;
  // 0: the lease is not watched.
  Scheduler::TaskId lease_watch_ ABSL_GUARDED_BY(mutex_) = 0;
  bool lost_notified_ ABSL_GUARDED_BY(mutex_) = false;
  absl::InlinedVector<Lost, 1> on_lost_ ABSL_GUARDED_BY(mutex_);
  LeftOpen on_left_open_ ABSL_GUARDED_BY(mutex_);
  // Made with the first checkpoint.
  std::shared_ptr<CheckpointQueue> checkpoints_ ABSL_GUARDED_BY(mutex_);
  Scheduler::TaskId caller_timer_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<v1::CompleteRequest> complete_ ABSL_GUARDED_BY(mutex_);
  // The outcome of an earlier attempt is still unknown.
  bool recovering_ ABSL_GUARDED_BY(mutex_);
  ContentRejection content_rejection_ ABSL_GUARDED_BY(mutex_);
  Completed completed_ ABSL_GUARDED_BY(mutex_);
  v1::ReleaseRequest release_ ABSL_GUARDED_BY(mutex_);
  Released released_ ABSL_GUARDED_BY(mutex_);
  // nullopt: not answered yet.
  std::optional<absl::Status> release_answer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_RESERVATION_H_
