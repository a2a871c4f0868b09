#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_BEGUN_OPERATION_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_BEGUN_OPERATION_H_

#include <grpcpp/support/status.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "grpc_idempotency/server_guard/execution.h"
#include "idempotency/v1/record.pb.h"

namespace idempotency {

namespace internal {
class LiveExecution;
class OperationAdmission;
}  // namespace internal

// The result of ServerGuard::Begin unless it refuses: the work runs now, or it has run and this
// object has its reply.
//
// When it runs, heartbeats keep the reservation (for MethodPolicy::max_lease at most) until
// exactly one of Complete, Fail and Release is called. Their blocking forms return when the
// store has acknowledged, or after GuardOptions::recording_timeout; do not call them on the
// guard's own threads (inside a callback of Begin or of an asynchronous form) or on gRPC's. The
// asynchronous forms call `done` once, on a thread of the guard's or inside the call; it must
// not block, and an exception from it is logged and ignored. A guard that is destroyed first
// calls it with OUTCOME_NOT_RECORDED. Both forms return
//   OK                    acknowledged: a repeat gets this reply, byte for byte (after Release:
//                         the next attempt may run; after an unrecorded failure: see Fail)
//   RESERVATION_LOST      (ABORTED) another attempt took over, or the record expired (`cause`
//                         RECORD_EXPIRED), or both in this order (`cause` SUPERSEDED); nothing was
//                         recorded. Its effects may happen again
//   OUTCOME_NOT_RECORDED  not acknowledged yet. The guard goes on recording; call Begin again
//                         later for the outcome
// If the result is not OK, do not acknowledge the message (docs/explicit.md has the exception): it
// is delivered again, and Begin then returns the outcome. An invalid call is refused with
// INVALID_ARGUMENT or FAILED_PRECONDITION, and changes nothing. If idempotencyd refuses the guard
// itself (its identity has no permission, for example), the guard repeats the request as if there
// were no answer. If idempotencyd refuses a release for good, its status is returned, and the
// reservation ends with its lease.
//
// Movable; the methods are thread-safe, moving and destroying are not. The guard must outlive
// it; the guard's destructor waits for outstanding recordings. If an object is destroyed
// unsettled (an exception, a forgotten path), the outcome of its work is unknown: its lease
// expires, or under REQUIRE_RECOVERY the outcome becomes unknown. This is logged.
class BegunOperation {
 public:
  enum class Decision {
    kRun,     // do the work, and settle it
    kReplay,  // the work was done: reply() has its reply
  };
  using Done = std::function<void(const absl::Status&)>;

  BegunOperation(BegunOperation&& other) noexcept;
  BegunOperation& operator=(BegunOperation&& other) noexcept;
  ~BegunOperation();

  Decision decision() const;
  // Identifies the record in Get. 1-to-1 with scope, operation and key: the best identity under
  // which to store effects.
  const std::string& record_id() const { return record_id_; }

  // When it runs: attempt(), lost(), MarkNoEffect(), as for a handler. Valid as long as this
  // object, also once it is settled. nullptr on a replay.
  Execution* execution() const;

  // The work succeeded with `reply`; use google.protobuf.Empty if there is none. Fields marked
  // REPLY_REDACT are not stored; a reply over GuardOptions::max_reply_bytes completes without
  // its content. After execution()->RecordInTransaction() the completion ledger decides, as for
  // a handler. INVALID_ARGUMENT for a message of another type than BeginCall::reply_type.
  absl::Status Complete(const google::protobuf::Message& reply);
  void Complete(const google::protobuf::Message& reply, Done done);
  // The work failed permanently, and a repeat gets the same failure. INVALID_ARGUMENT for a
  // code that the policy does not record, and for an error of another guard.
  absl::Status Complete(const grpc::Status& failure);
  void Complete(const grpc::Status& failure, Done done);

  // The work failed: OK means that this is recorded, never that the work is done. The policy
  // decides the consequence, as for a handler. A recorded code is completed. CANCELLED and
  // DEADLINE_EXCEEDED let the lease expire, since the work may still continue. A released code lets
  // the next attempt run at once, every other code after a pause that grows with the attempt (1 s
  // to 1 min). Under REQUIRE_RECOVERY a code that is neither recorded nor released makes the
  // outcome unknown. INVALID_ARGUMENT for OK.
  absl::Status Fail(const grpc::Status& failure);
  void Fail(const grpc::Status& failure, Done done);

  // Nothing happened: the next attempt may run at once, under every policy. `reason` is for
  // operators who look the record up: UTF-8 without control characters, of which up to 1 KiB is
  // kept. Other text is refused with REQUEST_INVALID, and the operation can still be settled.
  absl::Status Release(std::string reason);
  void Release(std::string reason, Done done);

  // On a replay: the stored reply, with the trailing metadata of a guarded method's replay.
  // Empty when the work runs.
  const v1::Reply& reply() const;
  // On a replay: returns the recorded status and, if it is OK, parses the reply into `into`.
  // INTERNAL if the reply has another type, or if there is no reply.
  grpc::Status ReadReply(google::protobuf::Message& into) const;

 private:
  friend class internal::OperationAdmission;
  struct Run;

  BegunOperation(std::string record_id, std::shared_ptr<internal::LiveExecution> execution);
  BegunOperation(std::string record_id, v1::Reply reply);

  // FAILED_PRECONDITION unless the operation runs and is not settled; otherwise marks it
  // settled.
  absl::Status Take();
  void Settle(v1::Reply reply, Done done);
  // After Take().
  void SettleTaken(v1::Reply reply, Done done);
  void Abandon();

  std::string record_id_;
  // nullptr on a replay, and after a move.
  std::unique_ptr<Run> run_;
  v1::Reply reply_;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_BEGUN_OPERATION_H_
