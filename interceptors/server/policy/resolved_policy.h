#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_RESOLVED_POLICY_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_RESOLVED_POLICY_H_

#include <optional>
#include <string>

#include "google/protobuf/descriptor.h"

#include "grpc_idempotency/server_guard/guard_options.h"
#include "grpc_idempotency/server_guard/method_policy.h"
#include "interceptors/server/policy/policy_rules.h"
#include "interceptors/server/policy/unknown_outcome.h"

namespace idempotency::internal {

// The effective policy of one method, and the origin of its members. A value type.
class ResolvedPolicy {
 public:
  // The method's default, then its proto's option, then the code's: MethodConfig::policy
  // replaces both, and MethodConfig::adjust changes the result. Faults are added to `faults`.
  static ResolvedPolicy Of(const google::protobuf::MethodDescriptor& method,
                           const GuardOptions& options, PolicyFaults& faults);

  const MethodPolicy& policy() const { return resolved_; }
  // nullopt if no choice was made.
  std::optional<UnknownOutcome> unknown_outcome() const { return unknown_outcome_; }

  // True if clients retry the method although it is not guarded: its proto declares a key, and the
  // code sets none.
  bool is_retried_unguarded() const { return is_retried_unguarded_; }

  // The effective members in one line, by origin; then the consequences of a crash and of a
  // failure:
  //   proto: in_flight WAIT, max_wait 2s; code: lease 5s; default: key REQUIRED, ...;
  //   after a crash it runs again when the lease is over (5s); after a failure ...
  //   not guarded: key NONE (default)
  std::string Description() const;

 private:
  MethodPolicy default_;
  MethodPolicy declared_;
  MethodPolicy resolved_;
  std::optional<UnknownOutcome> unknown_outcome_;
  std::string unknown_outcome_in_words_;
  bool is_retried_unguarded_ = false;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_RESOLVED_POLICY_H_
