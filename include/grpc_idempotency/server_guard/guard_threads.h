#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_THREADS_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_THREADS_H_

#include <cstddef>

#include "grpc_idempotency/limits.h"

namespace idempotency {

// The maximum number of a guard's threads for each kind of application code. Each kind has its
// own threads, so that slow code of one kind delays only that kind. Threads start when they are
// needed. From 1 to kMax each; up to kMaxWaiting tasks of a kind wait, and further ones are
// refused.
struct GuardThreads {
  static constexpr int kMax = 256;
  // The number of unanswered operations of one session of the guard's.
  static constexpr std::size_t kMaxWaiting = limits::kMaxSessionInFlight;

  // Start the handlers of guarded callback methods ("guard-run-1", ...). A handler that blocks
  // before it returns its reactor occupies one of them until it returns. When all are occupied,
  // further guarded callback calls wait, and nothing else does. Over the limit: OVERLOADED, and
  // nothing runs. 16: the maximum number of threads of gRPC's callback API (2 on a small
  // machine).
  int handlers = 16;

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

  // While the guard exists, one thread of gRPC's callback API runs all reactions of the process,
  // and the others are held. A lone guarded call then makes a third of the switches of threads in
  // this process: all of gRPC's threads poll one queue, and one that leaves it to run a reaction
  // wakes another. For services with few calls at a time: with 64 in flight one thread may carry
  // a third fewer calls per second (docs/adr/0048-fewer-hand-overs.md). And only for processes none
  // of whose reactions, callbacks and unguarded callback handlers block, as gRPC requires: one that
  // blocks stops every call of the process until it returns. The code of the kinds above, the
  // handlers of guarded callback methods and those of the sync API may block. Guards of a process
  // share it. If gRPC does not release its threads within 5 s, the guard logs a warning and they
  // stay as they are. false: the application may have such code.
  bool single_polling_thread = false;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_THREADS_H_
