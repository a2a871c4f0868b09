#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_SETTLEMENT_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_SETTLEMENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "grpc_idempotency/server_guard/disposition.h"
#include "idempotency/v1/record.pb.h"
#include "interceptors/server/execution/ledger_lookup.h"
#include "interceptors/server/execution/live_execution.h"

namespace idempotency::internal {

// The way out of an execution: what becomes of its reservation once its
// handler has answered, by the operation's policy, and what its caller gets.
class Settlement : public std::enable_shared_from_this<Settlement> {
 public:
  struct Outcome {
    // OK: the caller gets the handler's reply. Anything else goes out in its
    // place, and nothing of the reply.
    absl::Status error;
    // When the record is forgotten; InfinitePast if there is no reply in it.
    absl::Time expires_at = absl::InfinitePast();
    // Where the reservation was given back: the store's answer to that
    // (Reservation::release_answer). OK where it was not.
    absl::Status release = absl::OkStatus();
  };
  // Called once, on any thread, possibly inside Settle; must not block.
  using Done = std::function<void(const Outcome&)>;

  // Settle or Complete, once per execution. Settle is for what a handler
  // answered. After RecordInTransaction the completion ledger is asked first, unless the
  // commit is known to have succeeded (Execution::Commit), and it decides: what
  // is committed is completed with the committed reply, whatever the handler
  // answered, and an OK without a commit is not completed.
  static void Settle(std::shared_ptr<LiveExecution> execution, v1::Reply reply, Done done);
  // The same for an execution whose owner says that nothing happened: whatever
  // the policy, the next attempt may run. `reason` is kept with the record.
  static void GiveBack(std::shared_ptr<LiveExecution> execution, std::string reason, Done done);
  // For an execution whose reply is known without its handler.
  static void Complete(std::shared_ptr<LiveExecution> execution, v1::Reply reply, Done done);

 private:
  Settlement(std::shared_ptr<LiveExecution> execution, v1::Reply reply, Done done);

  static std::shared_ptr<Settlement> Make(std::shared_ptr<LiveExecution> execution, v1::Reply reply,
                                          Done done);

  void Start();
  void LookUpInLedger();
  void OnLedger(const LedgerLookup::Answer& committed);
  Disposition DispositionByPolicy() const;
  void Dispose(Disposition disposition);
  void Record();
  void Release(v1::ReleaseOutcome outcome, absl::Duration pause = absl::ZeroDuration());
  // RESERVATION_LOST if the store has said that the record is another's;
  // otherwise what goes out in the reply's place, if anything does.
  absl::Status LossIfRefused() const;
  // What the record says of a release that was given no reason.
  std::string HandlersAnswer() const;
  // Leaves an outcome that nobody knows to the background, if it recovers.
  void LeaveOpen();
  // The caller gets `why`, and the next attempt may run, or find out.
  void Abandon(const absl::Status& why);
  void OnCompleted(const absl::StatusOr<v1::CompleteResponse>& answer);
  void Finish(const Outcome& outcome);

  const std::shared_ptr<LiveExecution> execution_;
  const grpc::StatusCode code_;
  v1::Reply reply_;
  // Of a release; "": what the handler answered.
  std::string release_reason_;
  // What the caller gets although the reply is recorded or given up.
  absl::Status instead_;

  Mutex mutex_;
  // What is told of an execution that the ledger has not decided: it will.
  Disposition disposition_ ABSL_GUARDED_BY(mutex_) = Disposition::kLetLapse;
  Scheduler::TaskId caller_timer_ ABSL_GUARDED_BY(mutex_) = 0;
  // Empty once the caller was told.
  Done done_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_SETTLEMENT_H_
