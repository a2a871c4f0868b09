#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_RESERVE_CALL_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_RESERVE_CALL_H_

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/backoff.h"
#include "core/mutex.h"
#include "core/pass_key.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "interceptors/server/reservation/reservation.h"
#include "interceptors/server/reservation/store_context.h"
#include "interceptors/server/reservation/unguarded_run.h"

namespace idempotency::internal {

// The service's answer to Reserve, and the time when the request was sent, from which leases
// are counted.
struct ReserveAnswer {
  std::shared_ptr<const v1::ReserveResponse> response;
  Scheduler::Time sent;
};

// How a grant that arrives without a waiting caller is handled.
struct AbandonedGrant {
  // For a call that runs its handler if there is no verdict; otherwise nullptr.
  std::shared_ptr<const UnguardedRun> unguarded = nullptr;
  // For its reservation; may be empty.
  Reservation::LeftOpen on_left_open = nullptr;
};

// One request for a reservation, repeated until it is answered.
//
// A try whose outcome is open may still have been granted, so it is repeated with the same
// request token. A caller that has stopped waiting gets its answer, but the request is pursued
// further, and a grant without a waiting caller is released: otherwise the key would be blocked
// for a lease. If the call runs unguarded (UnguardedRun), the grant is left to its lease: the
// handler may still run, and neither another attempt nor recovery may begin before. A temporary
// refusal of a repeat (OVERLOADED, for example) is the caller's answer too, but not the answer to
// the tries before it: the request is pursued. Pursuit ends after the lease or 30 s, the longer of
// the two, when no grant can be held any more, and it is left out if too many requests are pursued
// already (ReserveLimits::pursued).
//
// If no try was ever sent, because there is no connection to the service, the caller gets
// STORE_UNAVAILABLE at once and the request is not repeated.
//
// A grant whose lease had expired when it arrived is requested again too: nothing may run under
// it, and the repeat is granted with a new lease, or reports the attempt that took over. Without an
// answer to the repeat the caller's STORE_UNAVAILABLE stands for ABORTED (kStatusCodeDetail): there
// was a verdict.
//
// Thread-safe. Keeps itself alive until it is answered or given up.
class ReserveCall final : public std::enable_shared_from_this<ReserveCall> {
 public:
  using Time = Scheduler::Time;
  // Called once, on any thread, possibly inside Start(). An error of the service's own is
  // passed on, except refusals of the guard itself (RefusesCaller); these and every other error
  // become STORE_UNAVAILABLE. KindOfAnswer() classifies the answer.
  using Done = absl::AnyInvocable<void(absl::StatusOr<ReserveAnswer>)>;

  // `request` has everything, or everything except max_wait; without a request token it gets a
  // new one. The caller needs the answer by `deadline`.
  static std::shared_ptr<ReserveCall> Make(SharedStoreContext context,
                                           std::shared_ptr<const v1::ReserveRequest> request,
                                           absl::Duration max_wait, Time deadline, Done done,
                                           AbandonedGrant abandoned = {});

  void Start();

  // The caller stops waiting: `done` gets `status` if it has not been called.
  void Abandon(const absl::Status& status);

  // For Make() alone.
  ReserveCall(PassKey<ReserveCall> key, SharedStoreContext context,
              std::shared_ptr<const v1::ReserveRequest> request, absl::Duration max_wait,
              Time deadline, Done done, AbandonedGrant abandoned);

 private:
  // `request` is only read.
  void Send(const v1::ReserveRequest& request, Time deadline);
  void SendAgain();
  void OnResponse(absl::StatusOr<v1::ReserveResponse> response, Time sent,
                  ReplayCache::Moment sent_moment);
  void OnAnswer(absl::StatusOr<ReserveAnswer> answer);
  // True if the request is scheduled to be sent again: not if no caller waits for it and there
  // is no place to pursue it.
  bool Repeat() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The status of a caller whose deadline has passed.
  absl::Status NoVerdictInTime();
  bool MayRunUnguarded() const;
  void ReleaseGrant(ReserveAnswer answer);
  void Finish(absl::StatusOr<ReserveAnswer> answer);

  const SharedStoreContext context_;
  const Time wait_until_;
  const Time deadline_;
  // The time after which a grant whose answer was lost can no longer be held.
  const Time pursue_until_;

  // The request of the first try.
  const std::shared_ptr<const v1::ReserveRequest> request_;
  // One try is outstanding at a time, and one gets a grant without a waiting caller.
  AbandonedGrant abandoned_;
  Mutex mutex_;
  OutstandingWork::Hold hold_ ABSL_GUARDED_BY(mutex_);
  // Set once it is pursued without a waiting caller.
  Places::Place pursuit_ ABSL_GUARDED_BY(mutex_);
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  Scheduler::TaskId timer_ ABSL_GUARDED_BY(mutex_) = 0;
  // A try may have reached the service.
  bool maybe_sent_ ABSL_GUARDED_BY(mutex_) = false;
  // A try has ended without an answer, or with a grant that came too late.
  bool maybe_granted_ ABSL_GUARDED_BY(mutex_) = false;
  bool late_grant_ ABSL_GUARDED_BY(mutex_) = false;
  // Empty once it was called.
  Done done_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_RESERVE_CALL_H_
