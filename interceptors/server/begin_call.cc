#include "grpc_idempotency/server_guard/begin_call.h"

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"

#include "core/request_rules.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/server_guard/guard_options.h"
#include "interceptors/server/policy/policy_rules.h"
#include "interceptors/server/policy/unknown_outcome.h"

namespace idempotency {

using internal::ChosenUnknownOutcome;
using internal::FaultsOf;
using internal::PolicyFaults;
using internal::RelaxationFault;
using internal::UnknownOutcomeChoices;
using internal::ValidateLabels;

namespace {

// Faults: members that would silently have no effect without a method and a call.
PolicyFaults FaultsWithoutMethod(const MethodPolicy& policy) {
  PolicyFaults faults;
  if (policy.key != MethodPolicy::Key::kRequired) {
    faults.push_back("key must be REQUIRED: Begin needs one");
  }
  if (!policy.key_field.empty()) faults.push_back("key_field is for methods of a server");
  if (!policy.fingerprint_metadata.empty()) {
    faults.push_back("fingerprint_metadata is for methods of a server");
  }
  if (policy.stream != MethodPolicy::Stream::kUnguarded) {
    faults.push_back("stream is for methods of a server");
  }
  if (policy.reply == MethodPolicy::Reply::kReference) {
    faults.push_back("reply REFERENCE needs a loader, which only methods of a server have");
  }
  if (policy.fail_open) faults.push_back("fail_open is for methods of a server");
  if (policy.cancel_when_lost) {
    faults.push_back("cancel_when_lost is for methods of a server: check Execution::lost()");
  }
  return faults;
}

}  // namespace

absl::Status ValidateBeginCall(const BeginCall& call, const GuardOptions& options) {
  const RecordKey key{options.name_space, call.scope, call.operation, NormaliseKey(call.key)};
  if (absl::Status valid = ValidateRecordKey(key, "begin"); !valid.ok()) return valid;
  if (absl::StrContains(call.operation, '/')) {
    return InvalidField("begin.operation", "'/' is reserved for the names of gRPC methods");
  }
  if (absl::Status valid = ValidateLabels(call.labels, "begin.labels"); !valid.ok()) return valid;
  PolicyFaults faults = FaultsOf(call.policy);
  for (std::string& fault : FaultsWithoutMethod(call.policy)) faults.push_back(std::move(fault));
  const auto chosen = ChosenUnknownOutcome(call.policy, call.recovery, options);
  std::string relaxation = RelaxationFault(call.policy, chosen, options);
  if (!relaxation.empty()) faults.push_back(std::move(relaxation));
  if (!chosen) {
    faults.push_back("the handling of an unknown outcome is not chosen: " +
                     UnknownOutcomeChoices());
  }
  if (faults.empty()) return absl::OkStatus();
  return InvalidField("begin.policy", absl::StrJoin(faults, "; "));
}

}  // namespace idempotency
