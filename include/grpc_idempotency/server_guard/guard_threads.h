#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_THREADS_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_THREADS_H_

#include <cstddef>

#include "grpc_idempotency/limits.h"

namespace idempotency {

// How many threads a guard has at most for each kind of the application's code.
// Each kind has threads of its own, so that slow code of one kind delays only
// that kind. They are begun when they are needed. From 1 to
// kMax each; up to kMaxWaiting pieces of a kind wait, and what is over that is
// refused.
struct GuardThreads {
  static constexpr int kMax = 256;
  // As many as a session of the guard's has unanswered.
  static constexpr std::size_t kMaxWaiting = limits::kMaxSessionInFlight;

  // Start the handlers of guarded callback methods ("guard-run-1", ...). A
  // handler that blocks before it returns its reactor holds one of them until it
  // returns. When all of them are held, further guarded callback calls wait, and
  // nothing else does. Over the limit: OVERLOADED, and nothing runs. 16: as many
  // threads as gRPC's callback API has at most (2 on a small machine).
  int handlers = 16;

  // Ask the completion ledger ("guard-ledger-1", ...). Over the limit: an attempt
  // after the first is refused with STORE_UNAVAILABLE, and a lookup about a
  // handler that has answered is asked again later. 8: as many as
  // PostgresLedgerOptions::connections.
  int ledger = 8;

  // Run recovery handlers ("guard-recover-1", ...). Over the limit: OVERLOADED,
  // and the outcome stays unknown. 4: recoveries are rare and wait for other
  // services. Recoveries in the background use half of them.
  int recovery = 4;

  // Run reply loaders ("guard-load-1", ...). Over the limit: OVERLOADED. 8: under
  // REPLY_REFERENCE each replay reads from the application's database.
  int loaders = 8;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_THREADS_H_
