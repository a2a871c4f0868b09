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

// What ServerGuard::Begin answers when it does not refuse: the work runs now, or
// it has run and here is its reply.
//
// When it runs, heartbeats keep the reservation (for MethodPolicy::max_lease at
// most) until exactly one of Complete, Fail and Release is called. Their
// blocking forms answer when the store has acknowledged, after
// GuardOptions::recording_timeout at the latest, and are not for the guard's own
// threads (inside a callback of Begin or of an asynchronous form) nor gRPC's.
// The others call `done` once, on a thread of the guard's or inside the call,
// which must not block; what it throws there is logged and ends there. A guard
// that is destroyed first calls it with OUTCOME_NOT_RECORDED. Both answer
//   OK                    acknowledged: a repeat gets this reply, byte for byte
//                         (after Release: the next attempt may run; after
//                         unrecorded failures: what Fail says has been done)
//   RESERVATION_LOST      (ABORTED) another attempt took over; nothing of this
//                         one was recorded. What it did may be done again
//   OUTCOME_NOT_RECORDED  not acknowledged yet. The guard goes on recording;
//                         begin again later to learn what became of it
// Where the answer is not OK, do not acknowledge the message: it comes again,
// and Begin then tells. A call that cannot work is refused with
// INVALID_ARGUMENT or FAILED_PRECONDITION, and changes nothing. Where
// idempotencyd itself refuses (the guard's identity has no right, for example),
// its status is the answer, and the reservation ends with its lease.
//
// Movable; its methods are thread-safe, moving and destroying it is not. The
// guard must outlive it, and waits in its destructor for what is being recorded.
// An object that goes away unsettled (an exception, a forgotten path) says that
// nobody knows what was done: the lease is left to run out, or under
// REQUIRE_RECOVERY the outcome becomes unknown. That is logged.
class BegunOperation {
 public:
  enum class Verdict {
    kRun,     // do it, and settle it
    kReplay,  // it was done: reply() is what it answered
  };
  using Done = std::function<void(const absl::Status&)>;

  BegunOperation(BegunOperation&& other) noexcept;
  BegunOperation& operator=(BegunOperation&& other) noexcept;
  ~BegunOperation();

  Verdict verdict() const;
  // Leads to the record with Get. 1-to-1 with scope, operation and key: what
  // effects are best kept under.
  const std::string& record_id() const { return record_id_; }

  // When it runs: attempt(), lost(), MarkNoEffect(), as for a handler. Valid
  // as long as this object, also once it is settled. nullptr on a replay.
  Execution* execution() const;

  // It is done. google.protobuf.Empty where there is nothing to say. Fields
  // marked REPLY_REDACT are not stored; a reply over
  // GuardOptions::max_reply_bytes completes without its content. After
  // execution()->RecordInTransaction() it is the completion ledger that decides, as for a
  // handler.
  absl::Status Complete(const google::protobuf::Message& reply);
  void Complete(const google::protobuf::Message& reply, Done done);
  // It failed for good, and a repeat gets the same failure. INVALID_ARGUMENT for
  // a code that the policy does not record.
  absl::Status Complete(const grpc::Status& failure);
  void Complete(const grpc::Status& failure, Done done);

  // It failed; what becomes of it is for the policy to say, as for a handler: a
  // recorded code is completed; CANCELLED and DEADLINE_EXCEEDED leave the lease
  // to run out, since the work may still go on; a released code lets the next
  // attempt run at once, every other code after a pause that grows with the
  // attempt (1 s to 1 min). Under REQUIRE_RECOVERY what is neither recorded nor
  // released becomes unknown. INVALID_ARGUMENT for OK.
  absl::Status Fail(const grpc::Status& failure);
  void Fail(const grpc::Status& failure, Done done);

  // Nothing happened: the next attempt may run at once, whatever the policy.
  // `reason` is for people who look the record up: UTF-8 without control
  // characters, of which up to 1 KiB is kept. Any other is refused with
  // REQUEST_INVALID, and the operation can still be settled.
  absl::Status Release(std::string reason);
  void Release(std::string reason, Done done);

  // On a replay: what is stored, with the trailing metadata that a guarded
  // method's replay has. Empty when it runs.
  const v1::Reply& reply() const;
  // On a replay: the recorded status and, if that is OK, the reply in `into`.
  // INTERNAL if it is of another type, or if there is none to read.
  grpc::Status ReadReply(google::protobuf::Message& into) const;

 private:
  friend class internal::OperationAdmission;
  struct Run;

  BegunOperation(std::string record_id, std::shared_ptr<internal::LiveExecution> execution);
  BegunOperation(std::string record_id, v1::Reply reply);

  // FAILED_PRECONDITION unless it runs and is not settled; then it is.
  absl::Status Take();
  void Settle(v1::Reply reply, Done done);
  void Abandon();

  std::string record_id_;
  // nullptr on a replay, and once moved from.
  std::unique_ptr<Run> run_;
  v1::Reply reply_;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_BEGUN_OPERATION_H_
