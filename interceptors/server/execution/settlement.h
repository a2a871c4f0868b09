#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_SETTLEMENT_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_SETTLEMENT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "core/pass_key.h"
#include "grpc_idempotency/server_guard/disposition.h"
#include "idempotency/v1/record.pb.h"
#include "interceptors/server/execution/call_span.h"
#include "interceptors/server/execution/ledger_lookup.h"
#include "interceptors/server/execution/live_execution.h"

namespace idempotency::internal {

// The exit of an execution: settles its reservation once its handler has answered, by the
// operation's policy, and decides what its caller gets.
class Settlement final : public std::enable_shared_from_this<Settlement> {
 public:
  struct Outcome {
    // OK: the caller gets the handler's reply. Any other status is sent instead of the reply.
    absl::Status error;
    // RESERVATION_LOST (IsRecordGone) beside an OK `error`: the record does not exist any more, so
    // that the reply could not be recorded. It is the truth about this execution, and no record can
    // contradict it; its caller must not call again.
    absl::Status unrecorded = absl::OkStatus();
    // When the record expires; InfinitePast if it has no reply.
    absl::Time expires_at = absl::InfinitePast();
    // If the reservation was released: the store's answer to that
    // (Reservation::release_answer). Otherwise OK.
    absl::Status release = absl::OkStatus();
  };
  // Called once, on any thread, possibly inside Settle; must not block.
  using Done = std::function<void(const Outcome&)>;

  // Call one of Settle, ReleaseWithoutEffect and Complete, once per execution. Settle is for a
  // handler's answer. After RecordInTransaction it queries the completion ledger first, unless the
  // commit is known to have succeeded (Execution::Commit), and the ledger decides: a committed
  // operation is completed with the committed reply, also if the handler answered differently,
  // and an OK without a commit is not completed. Where the ledger decides about unknown outcomes,
  // an attempt that is not certainly_first() records no refusal that it has not committed; nor does
  // any attempt whose commit is in doubt. It queries the ledger before any refusal is recorded.
  //
  // An acknowledged commit made the reply durable: `done` is called at once then, and the reply is
  // recorded in the background. A retry meanwhile finds the attempt running, or, after a crash,
  // the reply in the ledger. ReserveLimits::replies_ahead bounds it.
  //
  // `reason` is kept with a record that is released, in place of the handler's answer.
  static void Settle(std::shared_ptr<LiveExecution> execution, std::unique_ptr<v1::Reply> reply,
                     Done done, std::string reason = "");
  // The same for an execution whose owner reports that nothing happened: the next attempt may
  // run, under every policy. `reason` is kept with the record.
  static void ReleaseWithoutEffect(std::shared_ptr<LiveExecution> execution, std::string reason,
                                   Done done);
  // For an execution whose reply is known without its handler.
  static void Complete(std::shared_ptr<LiveExecution> execution, std::unique_ptr<v1::Reply> reply,
                       Done done);

  // For Make() alone.
  Settlement(PassKey<Settlement> key, std::shared_ptr<LiveExecution> execution,
             std::unique_ptr<v1::Reply> reply, Done done);

 private:
  static std::shared_ptr<Settlement> Make(std::shared_ptr<LiveExecution> execution,
                                          std::unique_ptr<v1::Reply> reply, Done done);

  void Start();
  void LookUpCommit();
  void OnLedger(const LedgerLookup::Answer& committed);
  // The caller gets its reply before the store has it, if there is a place.
  void AnswerAhead();
  // The ledger has no row of an outcome that needs one.
  void OnNotCommitted();
  // Reports an error of the catalogue that would otherwise have been taken for the outcome.
  void LogPassedOn() const;
  // For its log line, after the handler's answer.
  const char* WhyNotCommitted() const;
  // The policy records this outcome, and the ledger decides about unknown ones.
  bool LedgerDecides() const;
  // The ledger decides, and another attempt may have committed or may still commit: its reply
  // would contradict a record of this one.
  bool MayContradictLedger() const;
  // The ledger decides, and this refusal is to be recorded. Also of a first attempt: the store may
  // have lost the record of an attempt that committed, and its row would contradict the refusal.
  bool RecordsRefusal() const;
  // A commit of this attempt is in doubt, and may contradict the outcome that the policy would
  // settle it with: a row that is not there yet is no proof.
  bool MayStillCommit() const;
  Disposition DispositionByPolicy() const;
  void Dispose(Disposition disposition);
  void Record();
  void Release(Disposition disposition, v1::ReleaseOutcome released,
               absl::Duration pause = absl::ZeroDuration());
  // RESERVATION_LOST if the store has refused the token; otherwise the status that is sent instead
  // of the reply, if any.
  absl::Status LossIfRefused(Disposition disposition) const;
  // The record's reason for a release that was given none.
  std::string HandlersAnswer() const;
  // The caller gets `why`, and the next attempt may run, or recover.
  void Abandon(const absl::Status& why);
  void OnCompleted(const absl::StatusOr<v1::CompleteResponse>& answer);
  void Finish(const Outcome& outcome);

  const std::shared_ptr<LiveExecution> execution_;
  // Until the end, of a sampled call. Used by the one that gets `done_`.
  std::optional<CallSpan> span_;
  const grpc::StatusCode code_;
  // The code by which the policy decides.
  const grpc::StatusCode deciding_code_;
  // Until it is recorded.
  std::unique_ptr<v1::Reply> reply_;
  // The reason of a release; "": the handler's answer.
  std::string release_reason_;
  // The status that the caller gets although the reply is recorded or given up.
  absl::Status instead_;
  // Another attempt had taken over before: callers may have its reply, also if its record is gone.
  bool superseded_ = false;
  // The ledger's commit was acknowledged to the handler.
  bool commit_acknowledged_ = false;

  Mutex mutex_;
  // Reported for an execution that the ledger has not decided yet: it will.
  Disposition disposition_ ABSL_GUARDED_BY(mutex_) = Disposition::kLetLapse;
  Scheduler::TaskId caller_timer_ ABSL_GUARDED_BY(mutex_) = 0;
  // Empty once the caller has its answer.
  Done done_ ABSL_GUARDED_BY(mutex_);
  // The execution's outcome was reported to the application's hook.
  bool reported_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_SETTLEMENT_H_
