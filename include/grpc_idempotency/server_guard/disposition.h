#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_DISPOSITION_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_DISPOSITION_H_

namespace idempotency {

// The consequence for a reservation when its handler has answered.
enum class Disposition {
  kComplete,        // the reply is recorded and replayed
  kRelease,         // nothing happened: the next attempt may run at once
  kReleaseUnknown,  // nothing runs until the outcome is known
  kLetLapse,        // the next attempt may run when the lease has expired
  kReleaseLater,    // a second execution is acceptable: it may run after a pause
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_DISPOSITION_H_
