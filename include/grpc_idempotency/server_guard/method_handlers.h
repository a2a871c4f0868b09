#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_METHOD_HANDLERS_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_METHOD_HANDLERS_H_

#include "grpc_idempotency/server_guard/key_validator.h"
#include "grpc_idempotency/server_guard/normaliser.h"
#include "grpc_idempotency/server_guard/recovery_handler.h"
#include "grpc_idempotency/server_guard/reply_loader.h"

namespace idempotency {

// The application's own code for one method, apart from its handler. Each may
// be empty. What they throw is caught and answered with INTERNAL (what a loader
// throws, as its header says).
struct MethodHandlers {
  KeyValidator key_validator;
  Normaliser normaliser;
  // Under REQUIRE_RECOVERY, which it chooses for a method whose policy does not
  // say more: finds out what became of an attempt whose outcome is unknown.
  // Without it, calls of such an operation get OUTCOME_UNKNOWN.
  RecoveryHandler recovery;
  // Required by MethodPolicy::Reply::kReference.
  ReplyLoader loader;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_METHOD_HANDLERS_H_
