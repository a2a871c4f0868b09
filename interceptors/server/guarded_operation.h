#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_GUARDED_OPERATION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_GUARDED_OPERATION_H_

#include <memory>
#include <string>

#include "interceptors/server/guard_options.h"
#include "interceptors/server/method_policy.h"
#include "interceptors/server/recovery_handler.h"
#include "interceptors/server/reservations.h"
#include "interceptors/server/worker_threads.h"

namespace idempotency {

class Recoverer;

// What is guarded, and how: a method of a server, or an operation that has no
// server. Its references outlive it. Immutable.
struct GuardedOperation {
  // What its records are kept under.
  std::string name;
  MethodPolicy policy;
  const GuardOptions& options;
  Reservations& reservations;
  WorkerThreads& workers;
  // Empty if the application gave none.
  RecoveryHandler recovery = nullptr;
  // The full name of the message that it replies with; "" if it may be any.
  std::string reply_type = "";
  // nullptr unless unknown outcomes are recovered in the background.
  std::shared_ptr<Recoverer> recoverer = nullptr;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_GUARDED_OPERATION_H_
