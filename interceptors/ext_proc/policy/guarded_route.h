#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_POLICY_GUARDED_ROUTE_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_POLICY_GUARDED_ROUTE_H_

#include <optional>
#include <string>

#include "google/protobuf/message.h"

#include "core/key_field.h"
#include "grpc_idempotency/server_guard/key_validator.h"
#include "grpc_idempotency/server_guard/method_policy.h"
#include "interceptors/server/policy/reply_type.h"
#include "interceptors/server/policy/unknown_outcome.h"

namespace idempotency::internal {

// How the requests of a gRPC method, or of a path of HTTP, are guarded. Immutable.
struct GuardedRoute {
  // The operation of their records; "": the path of the request, for gRPC methods without a
  // descriptor.
  std::string operation;
  MethodPolicy policy;
  UnknownOutcome on_unknown = UnknownOutcome::kRecover;
  // The type of its requests; nullptr if it is not known.
  const google::protobuf::Message* request_type = nullptr;
  std::optional<KeyField> key_field;
  // Empty: every key.
  KeyValidator key_validator;
  ReplyType reply_type;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_POLICY_GUARDED_ROUTE_H_
