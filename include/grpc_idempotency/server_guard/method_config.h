#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_METHOD_CONFIG_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_METHOD_CONFIG_H_

#include <functional>
#include <optional>
#include <string>

#include "grpc_idempotency/server_guard/authoriser.h"
#include "grpc_idempotency/server_guard/key_validator.h"
#include "grpc_idempotency/server_guard/method_policy.h"
#include "grpc_idempotency/server_guard/normaliser.h"
#include "grpc_idempotency/server_guard/recovery_handler.h"
#include "grpc_idempotency/server_guard/reply_loader.h"

namespace idempotency {

// The settings of one method, and the application's own code for it apart from the handler.
// A value type. Each member may be empty.
//
// Exceptions from the code are caught, and the caller gets INTERNAL (for a loader and a recovery
// handler: see reply_loader.h and recovery_handler.h).
struct MethodConfig {
  // Replaces the policy that the method's proto declares, as a whole: for protos that cannot
  // be changed.
  std::optional<MethodPolicy> policy;
  // Changes the policy that the proto declares, or `policy`. Protect() calls it once. It must
  // not throw.
  //   config.adjust = [lease](MethodPolicy& policy) { policy.lease = lease; };
  std::function<void(MethodPolicy&)> adjust;

  // The operation of the method's records; empty: its full name. A key belongs to an operation,
  // so a renamed method, or one of a new package, would run the retry of an earlier call again.
  // With the earlier name, "/payments.v1.Payments/Charge" for a method of payments.v2, the retry
  // finds its record. Part of the fingerprint in place of the method's name: an equal request is
  // replayed, any other gets KEY_REUSED. It begins with '/', and the host of Protect() precedes
  // it, as with a method's name; the same limits as for every operation apply
  // (limits::kMaxOperationBytes). Set it from the method's first release on, and on all replicas:
  // changing it for a method in service makes a retry that is due a second execution. Refused for
  // a method with key kNone.
  //
  // Several methods may have one operation, also the full name of another one: a key then runs in
  // one of them only, and each replays the replies of the others. The stored bytes are sent as
  // they are, so a reply of one must parse, and mean the same, as a reply of the others. They
  // must agree in what decides about a record: normaliser, key field and fingerprint metadata,
  // recovery and loader. Install() refuses those of which some are streaming and some are not, that
  // differ in the choice for an unknown outcome, or of which only some have a recovery handler.
  std::string operation;

  // Accepts or refuses a key, before the service is queried.
  KeyValidator key_validator;
  // Accepts or refuses a call, with a key or without one, replays included, before the service is
  // queried.
  Authoriser authoriser;
  // Removes the differences between requests that mean the same, before the fingerprint.
  Normaliser normaliser;
  // Finds out whether an attempt with an unknown outcome took effect. It selects
  // REQUIRE_RECOVERY for a method whose policy does not choose. Without it, the calls of an
  // operation with an unknown outcome get OUTCOME_UNKNOWN.
  RecoveryHandler recovery;
  // Makes the replies of replays. Required by MethodPolicy::Reply::kReference.
  ReplyLoader loader;

  // Returns `policy`, and sets it to the defaults first if it is empty. It replaces everything that
  // the proto declares; to change single fields, use `adjust`.
  MethodPolicy& MutableReplacementPolicy() {
    return policy.has_value() ? *policy : policy.emplace();
  }
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_METHOD_CONFIG_H_
