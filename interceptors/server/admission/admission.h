#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_ADMISSION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_ADMISSION_H_

#include <memory>
#include <string>
#include <variant>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "core/pass_key.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "interceptors/server/admission/recovery.h"
#include "interceptors/server/admission/verdict_report.h"
#include "interceptors/server/execution/guarded_operation.h"
#include "interceptors/server/execution/live_execution.h"
#include "interceptors/server/reservation/reserve_call.h"
#include "interceptors/server/wire/sent_reply.h"

namespace idempotency::internal {

// The entry of every call or operation: requests a reservation and decides what to do with the
// call. Settlement is the exit.
class Admission final : public std::enable_shared_from_this<Admission> {
 public:
  // The handler runs, and its outcome must be settled.
  struct Granted {
    std::shared_ptr<LiveExecution> execution;
  };
  // The operation has run, and the caller gets this reply.
  struct Replayed {
    SentReply reply;
  };
  // The handler does not run.
  struct Refused {
    absl::Status why;
    // "" if unknown.
    std::string record_id;
    // True if the record's state is unknown: no answer arrived (KindOfAnswer() is kNone), also
    // none to an earlier request of the same call, and not because the guard is being closed. A
    // refusal is an answer.
    bool no_verdict = false;
  };
  using Decision = std::variant<Granted, Replayed, Refused>;
  // Called once, on any thread, possibly inside Admit; must not block.
  using Done = absl::AnyInvocable<void(Decision)>;

  // Sends `reserve_request`, which has record key, fingerprints, parent and labels; the
  // operation's policy has the rest. Answered by `deadline`, or once a recovery handler has
  // decided. `request` is passed to that handler, and must live until `done` is called.
  // `unguarded` is that of a call which runs without a verdict; otherwise nullptr.
  static void Admit(std::shared_ptr<const GuardedOperation> operation,
                    std::shared_ptr<v1::ReserveRequest> reserve_request, Scheduler::Time deadline,
                    Done done, const google::protobuf::Message* request = nullptr,
                    std::shared_ptr<const UnguardedRun> unguarded = nullptr);

  // For Admit() alone.
  Admission(PassKey<Admission> key, std::shared_ptr<const GuardedOperation> operation,
            std::shared_ptr<const v1::ReserveRequest> reserve_request, Scheduler::Time deadline,
            Done done, const google::protobuf::Message* request,
            std::shared_ptr<const UnguardedRun> unguarded);

 private:
  using Labels = google::protobuf::Map<std::string, std::string>;

  void Request(absl::Duration max_wait, Scheduler::Time deadline);
  void OnVerdict(absl::StatusOr<ReserveAnswer> answer);
  // The outcome is unknown, and no recovery handler can find it out: the ledger may.
  void LookUpCommit(ReserveAnswer answer);
  void LeaveUnknown(const v1::ReserveResponse& verdict, const absl::Status& why);
  // The ledger has a row: a reservation that completes the record with it.
  void RequestRecovery();
  void ActOnVerdict(ReserveAnswer answer);
  // `verdict` is a replay from the cache.
  void ReplayKnown(const std::shared_ptr<const v1::ReserveResponse>& verdict);
  void Grant(ReserveAnswer answer);
  // Passes the operation to background recovery; empty without it.
  Reservation::LeftOpen UnknownOutcomeReporter() const;
  // The commit of an earlier attempt decides before anything else does.
  void LookUpBeforeRun(const std::shared_ptr<LiveExecution>& execution);
  // The operation is done: `reply` is recorded, and this caller gets it.
  void RecordCommitted(const std::shared_ptr<LiveExecution>& execution, const v1::Reply& reply);
  // The handler does not run in this attempt.
  void GiveBack(const std::shared_ptr<LiveExecution>& execution, const std::string& reason,
                const absl::Status& why);
  // If the outcome of an earlier attempt is unknown, finds it out before the handler runs.
  void Recover(std::shared_ptr<LiveExecution> execution);
  void OnRecovered(std::shared_ptr<LiveExecution> execution, const Recovery::Result& result);
  // A recovery handler's failure whose record is gone: a retry would run the operation.
  void SendUnrecorded(const v1::Reply& failure, const std::string& record_id);
  // The only path to Granted. If the lease has expired by now (the ledger or the recovery
  // handler was slow, and heartbeats failed), it requests it again with the same request token:
  // nothing starts under an expired lease.
  void Start(std::shared_ptr<LiveExecution> execution);
  void Replay(const std::shared_ptr<const v1::ReserveResponse>& verdict);
  // `labels` are the record's.
  void Replay(std::shared_ptr<const v1::Reply> reply, const std::string& record_id,
              absl::Time expires_at, const Labels& labels);
  void Refuse(const absl::Status& why, std::string record_id = "");

  const std::shared_ptr<const GuardedOperation> operation_;
  // Shared by the call for the reservation and by the execution under it.
  std::shared_ptr<const v1::ReserveRequest> reserve_request_;
  const Scheduler::Time deadline_;
  Done done_;
  const google::protobuf::Message* const request_;
  const std::shared_ptr<const UnguardedRun> unguarded_;
  // These are used by one thread after another: each step starts the next.
  // A verdict has arrived: another request may follow it, with no answer.
  bool had_verdict_ = false;
  // Of the first verdict that the call follows. That is not an `outcome_unknown` for which the
  // ledger has the commit, but the answer to the request after it; and the first of two grants
  // (Start).
  VerdictReport report_;
  // The token of the grant that the ledger and the recovery handler have cleared.
  std::string cleared_token_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_ADMISSION_H_
