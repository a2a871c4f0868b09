#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_HOOK_CALL_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_HOOK_CALL_H_

#include <functional>

#include "grpc_idempotency/server_guard/guard_hooks.h"
#include "interceptors/server/log/guard_log.h"

namespace idempotency::internal {

// Calls a hook that is not empty. Exceptions are logged and ignored. Thread-safe.
void CallHook(GuardLog& log, const std::function<void(const VerdictEvent&)>& hook,
              const VerdictEvent& event);
void CallHook(GuardLog& log, const std::function<void(const RecordedEvent&)>& hook,
              const RecordedEvent& event);
void CallHook(GuardLog& log, const std::function<void(const LostEvent&)>& hook,
              const LostEvent& event);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_HOOK_CALL_H_
