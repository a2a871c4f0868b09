#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_ADMISSION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_ADMISSION_H_

#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "idempotency/v1/idempotency_service.pb.h"
#include "interceptors/server/admission/recovery.h"
#include "interceptors/server/execution/guarded_operation.h"
#include "interceptors/server/execution/live_execution.h"
#include "interceptors/server/reservation/reserve_call.h"

namespace idempotency::internal {

// From a request for a reservation to what is to be done about the call: the
// way in, whatever the call is. Settlement is the way out.
class Admission : public std::enable_shared_from_this<Admission> {
 public:
  // It runs, and its outcome must be settled.
  struct Granted {
    std::shared_ptr<LiveExecution> execution;
  };
  // It has run: this is what the caller gets.
  struct Replayed {
    v1::Reply reply;
  };
  // It does not run.
  struct Refused {
    absl::Status why;
    // "" if it is not known.
    std::string record_id;
    // Nothing is known of the record: no answer came (KindOfAnswer() is kNone), and
    // not because the guard is being closed. A refusal is an answer.
    bool no_verdict = false;
  };
  using Decision = std::variant<Granted, Replayed, Refused>;
  // Called once, on any thread, possibly inside Admit; must not block.
  using Done = std::function<void(Decision)>;

  // Asks what `request` says, which has record key, fingerprints, parent and
  // labels; the rest is the operation's policy. Answered by `deadline`, or once a
  // recovery handler has decided. `request`, which that handler is shown, lives
  // until `done` is called.
  static void Admit(std::shared_ptr<const GuardedOperation> operation,
                    v1::ReserveRequest reserve_request, Scheduler::Time deadline, Done done,
                    const google::protobuf::Message* request = nullptr);

 private:
  using Labels = google::protobuf::Map<std::string, std::string>;

  Admission(std::shared_ptr<const GuardedOperation> operation, v1::ReserveRequest reserve_request,
            Scheduler::Time deadline, Done done, const google::protobuf::Message* request);

  void Request(absl::Duration max_wait, Scheduler::Time deadline);
  // The hook, once.
  void ReportVerdict(const absl::StatusOr<ReserveAnswer>& answer, const absl::Status& why);
  void OnVerdict(absl::StatusOr<ReserveAnswer> answer);
  void Grant(const ReserveAnswer& answer);
  // What an earlier attempt committed decides before anything else does.
  void ConsultLedger(const std::shared_ptr<LiveExecution>& execution);
  // The operation is done: `reply` is recorded, and this caller gets it.
  void Finish(const std::shared_ptr<LiveExecution>& execution, const v1::Reply& reply);
  // It does not run in this attempt.
  void GiveBack(const std::shared_ptr<LiveExecution>& execution, const std::string& reason,
                const absl::Status& why);
  // Finds out, where an earlier attempt's outcome is unknown, before the handler
  // runs.
  void Recover(std::shared_ptr<LiveExecution> execution);
  void OnRecovered(std::shared_ptr<LiveExecution> execution, const Recovery::Result& result);
  // The one way to Granted. A lease that is over by now (the ledger or the
  // recovery handler was slow, and heartbeats failed) is asked for again with the
  // same request token: nothing starts under it.
  void Start(std::shared_ptr<LiveExecution> execution);
  // `labels` are the record's.
  void Replay(v1::Reply reply, const std::string& record_id, absl::Time expires_at,
              const Labels& labels);
  void Refuse(const absl::Status& why, std::string record_id = "");

  const std::shared_ptr<const GuardedOperation> operation_;
  const v1::ReserveRequest reserve_request_;
  const Scheduler::Time deadline_;
  const Done done_;
  const google::protobuf::Message* const request_;
  // Both are used by one thread after another: each step begins the next.
  bool reported_ = false;
  // Of the grant that ledger and recovery handler have let pass.
  std::string cleared_token_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_ADMISSION_H_
