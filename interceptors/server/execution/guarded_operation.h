#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_GUARDED_OPERATION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_GUARDED_OPERATION_H_

#include <algorithm>
#include <memory>
#include <string>

#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/server_guard/guard_options.h"
#include "grpc_idempotency/server_guard/method_policy.h"
#include "grpc_idempotency/server_guard/recovery_handler.h"
#include "grpc_idempotency/server_guard/reply_loader.h"
#include "interceptors/server/execution/unknown_outcome_sink.h"
#include "interceptors/server/log/guard_log.h"
#include "interceptors/server/policy/reply_type.h"
#include "interceptors/server/policy/unknown_outcome.h"
#include "interceptors/server/reservation/reservation_client.h"
#include "interceptors/server/threads/worker_pool.h"

namespace idempotency::internal {

// A guarded method of a server, or an operation without a server, with its settings. Its
// references outlive it. Immutable.
struct GuardedOperation {
  // The operation in its record keys.
  std::string name;
  MethodPolicy policy;
  const GuardOptions& options;
  ReservationClient& reservations;
  WorkerPools& pools;
  // The choice for unknown outcomes, from any level of the settings; by default the safe one.
  UnknownOutcome on_unknown = UnknownOutcome::kRecover;
  // The full name of the type of its requests; "" if it is unknown.
  std::string request_type = {};
  // The type of its replies. Replies of an unknown type are stored unchanged.
  ReplyType reply_type = {};
  // Makes replays under MethodPolicy::Reply::kReference; empty otherwise.
  ReplyLoader loader = nullptr;
  // Empty if the application gave none.
  RecoveryHandler recovery = nullptr;
  // nullptr unless unknown outcomes are recovered in the background.
  std::shared_ptr<UnknownOutcomeSink> unknown_outcomes = nullptr;
  std::shared_ptr<GuardLog> log = GuardLog::Default();
};

// When the wait for a verdict that begins now ends, by the policy or at its caller's deadline.
inline Scheduler::Time VerdictDeadline(const GuardedOperation& operation,
                                       Scheduler::Time callers_deadline = kNever) {
  const Scheduler::Time by_policy =
      After(operation.reservations.Now(),
            operation.options.verdict_timeout + operation.policy.WaitInFlight());
  return std::min(by_policy, callers_deadline);
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_GUARDED_OPERATION_H_
