#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_THREADS_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_THREADS_H_

#include <cstddef>

#include "grpc_idempotency/limits.h"

namespace idempotency {

// The maximum number of a guard's threads for each kind of application code. Each kind has its
// own threads, so that slow code of one kind delays only that kind. Threads start when they are
// needed. From 1 to kMax each; up to kMaxWaiting tasks of a kind wait, and further ones are
// refused, except replies.
struct GuardThreads {
  static constexpr int kMax = 256;
  // The number of unanswered operations of one session of the guard's.
  static constexpr std::size_t kMaxWaiting = limits::kMaxSessionInFlight;

  // Start the handlers of guarded callback methods ("guard-run-1", ...). A handler that blocks
  // before it returns its reactor occupies one of them until it returns. When all are occupied,
  // further guarded callback calls wait, and nothing else does. Over the limit: OVERLOADED, and
  // nothing runs. 16: the maximum number of threads of gRPC's callback API (2 on a small machine).
  // With an embedded service one handler at a time may run on a thread of the service's instead.
  int handlers = 16;

  // Run the application's interceptors, if there are some, for replies and replays of guarded
  // callback calls ("guard-reply-1", ...). An interceptor that blocks occupies one of them. When
  // all are occupied, further such replies wait, and nothing else does. No number of waiting
  // replies is refused: each belongs to a call that is in memory already, so that the limit of
  // calls is theirs. 16: as many as handlers. With an embedded service one reply at a time may be
  // sent on a thread of the service's instead. As many others cancel calls under
  // MethodPolicy::cancel_when_lost ("guard-cancel-1", ...).
  int replies = 16;

  // Query the completion ledger ("guard-ledger-1", ...). Over the limit: an attempt after the
  // first is refused with STORE_UNAVAILABLE, and a query about a handler that has answered is
  // repeated later. 8: as many as PostgresLedgerOptions::connections.
  int ledger = 8;

  // Run recovery handlers ("guard-recover-1", ...). Over the limit: OVERLOADED, and the outcome
  // stays unknown. 4: recoveries are rare and wait for other services. Background recoveries
  // use half of them.
  int recovery = 4;

  // Run reply loaders ("guard-load-1", ...). Over the limit: OVERLOADED. 8: under
  // REPLY_REFERENCE each replay reads from the application's database.
  int loaders = 8;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_THREADS_H_
