#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_METHOD_HANDLERS_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_METHOD_HANDLERS_H_

#include "interceptors/server/recovery_handler.h"

namespace idempotency {

// The application's own code for one method, apart from its handler. Each may
// be empty.
struct MethodHandlers {
  // Under REQUIRE_RECOVERY: finds out what became of an attempt that died.
  // Without it, calls of such an operation get OUTCOME_UNKNOWN.
  RecoveryHandler recovery;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_METHOD_HANDLERS_H_
