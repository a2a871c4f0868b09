#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_WORKER_POOLS_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_WORKER_POOLS_H_

#include "grpc_idempotency/server_guard/guard_threads.h"
#include "interceptors/server/threads/worker_pool.h"

namespace idempotency::internal {

// The pools that run the application's code: one for each kind. Thread-safe.
struct WorkerPools {
  explicit WorkerPools(const GuardThreads& threads = {})
      : handlers("guard-run", threads.handlers),
        ledger("guard-ledger", threads.ledger),
        recovery("guard-recover", threads.recovery),
        loaders("guard-load", threads.loaders) {}

  // Stops each of them. Safe to call twice.
  void Stop() {
    handlers.Stop();
    recovery.Stop();
    ledger.Stop();
    loaders.Stop();
  }

  // Handlers of callback methods.
  WorkerPool handlers;
  // Lookups to the completion ledger.
  WorkerPool ledger;
  WorkerPool recovery;
  WorkerPool loaders;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_WORKER_POOLS_H_
