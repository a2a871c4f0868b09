#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_GUARDED_OPERATION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_GUARDED_OPERATION_H_

#include <string>

#include "interceptors/server/guard_options.h"
#include "interceptors/server/method_policy.h"
#include "interceptors/server/reservations.h"
#include "interceptors/server/worker_threads.h"

namespace idempotency {

// What is guarded, and how: a method of a server, or an operation that has no
// server. Its references outlive it. Immutable.
struct GuardedOperation {
  // What its records are kept under.
  std::string name;
  MethodPolicy policy;
  const GuardOptions& options;
  Reservations& reservations;
  WorkerThreads& workers;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_GUARDED_OPERATION_H_
