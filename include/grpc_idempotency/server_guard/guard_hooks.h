#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_HOOKS_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_HOOKS_H_

#include <grpcpp/support/status_code_enum.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"

#include "grpc_idempotency/server_guard/disposition.h"

namespace idempotency {

// The part that every event has. Events are values: a hook may copy one into a queue.
struct GuardEvent {
  // The operation of the record: the method's full name, "/payments.v1.Payments/Charge", unless
  // MethodConfig::operation is set.
  std::string operation;
  // Identifies the record in Get; "" where there is no record.
  std::string record_id;
  // The attempt that was granted, runs, or completed; 0 if there is none.
  std::uint32_t attempt = 0;
  // The W3C traceparent of this call; "" if it had none.
  std::string traceparent;
};

struct VerdictEvent : GuardEvent {
  enum class Verdict {
    kReserved,
    kReplay,
    kInFlight,
    kMismatch,
    kOutcomeUnknown,
    kExpired,
    kNone,  // the store gave no verdict; `status` has the reason
  };
  Verdict verdict = Verdict::kNone;
  // OK for kReserved, and for kReplay if the reply can be replayed; otherwise the status that
  // the caller gets.
  absl::Status status;
  // On a replay the traceparent of the attempt that ran first, to find the original trace; "" if
  // that call had none.
  std::string first_traceparent;
};

struct RecordedEvent : GuardEvent {
  // The code of the handler's answer.
  grpc::StatusCode code = grpc::StatusCode::OK;
  Disposition disposition = Disposition::kComplete;
  // RESERVATION_LOST where the store refused the outcome; OUTCOME_NOT_RECORDED where Complete
  // has no answer yet. Otherwise OK, also for a release that is not acknowledged.
  absl::Status outcome;
};

struct LostEvent : GuardEvent {};

// Callbacks for an application's logs, metrics and traces. An empty one is not called, and
// its events are not made.
//
// They run on the guard's threads and on gRPC's, several at once: they must be thread-safe
// and must not block. An exception is logged and ignored; it changes nothing for the call.
struct GuardHooks {
  // Once for every call with a verdict, before the guard acts on it.
  std::function<void(const VerdictEvent&)> on_verdict;
  // Once for every execution, when its outcome is settled and before its caller gets the
  // answer; after an acknowledged Execution::Commit, whose reply leaves at once, perhaps later.
  std::function<void(const RecordedEvent&)> on_recorded;
  // At most once for an execution, when the guard finds that its reservation is lost: its
  // handler may still run, and so may the handler of another attempt.
  std::function<void(const LostEvent&)> on_lost;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_HOOKS_H_
