#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_HOOKS_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_HOOKS_H_

#include <grpcpp/support/status_code_enum.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"

#include "grpc_idempotency/server_guard/disposition.h"

namespace idempotency {

// What every hook is told. References are valid while it runs.
struct GuardEvent {
  // "/payments.v1.Payments/Charge".
  const std::string& operation;
  // Leads to the record with Get; "" where there is none to name.
  const std::string& record_id;
  // The attempt that was granted, runs, or completed; 0 if there is none.
  std::uint32_t attempt = 0;
  // The W3C traceparent of this call; "" if it brought none.
  const std::string& traceparent;
};

struct VerdictEvent : GuardEvent {
  enum class Verdict {
    kReserved,
    kReplay,
    kInFlight,
    kMismatch,
    kOutcomeUnknown,
    kExpired,
    kNone,  // the store gave none; `why` says why
  };
  Verdict verdict = Verdict::kNone;
  // OK for kReserved and kReplay; otherwise what the caller is answered.
  const absl::Status& why;
  // On a replay the traceparent of the attempt that ran first, so that it leads
  // to the original trace; "" if that brought none.
  const std::string& first_traceparent;
};

struct RecordedEvent : GuardEvent {
  // What the handler answered.
  grpc::StatusCode code = grpc::StatusCode::OK;
  Disposition disposition = Disposition::kComplete;
  // RESERVATION_LOST where the store refused it; OUTCOME_NOT_RECORDED where
  // Complete has no answer yet. Otherwise OK, as what is not acknowledged.
  const absl::Status& outcome;
};

struct LostEvent : GuardEvent {};

// Where a server listens to its guard, for logs, metrics and traces. Empty ones
// are not called.
//
// They run on the guard's threads and gRPC's, several at once: they must be
// thread-safe and must not block. What one throws is logged and dropped: it
// changes nothing for the call.
struct GuardHooks {
  // Once for every call that was asked about, before anything comes of it.
  std::function<void(const VerdictEvent&)> on_verdict;
  // Once for every execution, when its outcome was settled: before its caller
  // is answered.
  std::function<void(const RecordedEvent&)> on_recorded;
  // At most once for an execution, when its reservation is known to be lost:
  // its handler may still be running, and so may another attempt's.
  std::function<void(const LostEvent&)> on_lost;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_HOOKS_H_
