#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_DISPOSITION_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_DISPOSITION_H_

#include <grpcpp/support/status_code_enum.h>

#include "grpc_idempotency/server_guard/method_policy.h"

namespace idempotency {

// What becomes of a reservation when its handler has answered.
enum class Disposition {
  kComplete,        // the reply is recorded and replayed
  kRelease,         // nothing happened: the next attempt may run at once
  kReleaseUnknown,  // nothing runs before the outcome is known
  kLetLapse,        // the next attempt may run when the lease is over
  kReleaseLater,    // a second execution is acceptable: it may run after a pause
};

enum class UnknownOutcome;

// `nothing_happened` is the handler's own word; it counts only for codes that
// are not recorded. `on_unknown` is for codes that prove nothing.
Disposition DispositionFor(const MethodPolicy& policy, UnknownOutcome on_unknown,
                           grpc::StatusCode code, bool nothing_happened);

// The policy's recorded codes, and OK.
bool IsRecorded(const MethodPolicy& policy, grpc::StatusCode code);

// gRPC makes these itself, so they never prove what a handler did.
bool CanBeRecorded(grpc::StatusCode code);

// May stand for "nothing happened": not OK, and none of gRPC's own.
bool CanBeReleased(grpc::StatusCode code);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_DISPOSITION_H_
