#include "interceptors/server/call/protected_methods.h"

#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "core/record_key_parts.h"
#include "interceptors/server/policy/policy_rules.h"
#include "interceptors/server/policy/unknown_outcome.h"
#include "interceptors/server/request/request_identity.h"

namespace idempotency::internal {
namespace {

using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

// The name of a served method is its path, prefixed by the host if the service has its own.
std::string PathOf(const std::string& operation) { return operation.substr(operation.find('/')); }

// Settings that would have no effect: the method's calls are not guarded.
void RefuseSettingsOfUnguarded(const MethodConfig& config, PolicyFaults& faults) {
  if (config.authoriser) {
    faults.emplace_back(
        "GuardOptions.methods has an authoriser, which is not called with key NONE: authorise in "
        "the handler");
  }
  if (!config.operation.empty()) {
    faults.emplace_back("GuardOptions.methods has an operation, but key NONE has no records");
  }
}

// Why the records of `a` cannot be those of `b` too; "" if they can.
absl::string_view DifferenceOf(const GuardedOperation& a, const GuardedOperation& b) {
  const auto streams = [](const GuardedOperation& operation) {
    return operation.policy.stream != MethodPolicy::Stream::kUnguarded;
  };
  if (streams(a) != streams(b)) return "one is unary, and the other one is streaming";
  if (a.on_unknown != b.on_unknown) {
    return "they differ in the choice for an unknown outcome: a retry through one of them would "
           "run what the other one leaves unknown";
  }
  if (static_cast<bool>(a.recovery) != static_cast<bool>(b.recovery)) {
    return "only one of them has a recovery handler";
  }
  return "";
}

// INVALID_ARGUMENT if `operation` is not valid in a record key.
absl::Status CheckOperation(const std::string& host, const std::string& operation) {
  // A host that contains a path could make two operations equal.
  if (!absl::StrContains(host, '/') && ValidateOperation(operation).ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("records cannot be stored under the operation ", operation));
}

// A record does not outlive its retention while its handler runs, however long heartbeats may go
// on. Only a warning: records of UUIDv7 keys live at least for the namespace's window.
void WarnOfShortRetention(GuardLog& log, const std::string& operation, const MethodPolicy& policy) {
  if (policy.key == MethodPolicy::Key::kNone || policy.retention >= policy.max_lease) return;
  log.Once(LogSeverity::kWarning,
           absl::StrCat(operation, ": max_lease ", absl::FormatDuration(policy.max_lease),
                        " is over the retention ", absl::FormatDuration(policy.retention),
                        ": the record of a handler that runs longer than its retention is "
                        "forgotten, unless its key is a UUIDv7, and a retry runs again: retain "
                        "records for longer than a handler may run"));
}

}  // namespace

absl::StatusOr<std::vector<ResolvedPolicy>> ProtectedMethods::Resolve(
    const ServiceDescriptor& service) const {
  std::vector<ResolvedPolicy> policies;
  std::vector<std::string> wrong;
  for (int i = 0; i < service.method_count(); ++i) {
    const MethodDescriptor& method = *service.method(i);
    PolicyFaults faults;
    policies.push_back(ResolvedPolicy::Of(method, options_, faults));
    const MethodPolicy& policy = policies.back().policy();
    const auto config = options_.methods.find(MethodPath(method));
    const bool has_config = config != options_.methods.end();
    if (policy.key == MethodPolicy::Key::kNone) {
      if (has_config) RefuseSettingsOfUnguarded(config->second, faults);
    } else if (policy.reply == MethodPolicy::Reply::kReference &&
               !(has_config && config->second.loader)) {
      faults.push_back("reply REFERENCE needs a loader in GuardOptions.methods");
    }
    for (const std::string& fault : faults) {
      wrong.push_back(absl::StrCat(MethodPath(method), ": ", fault));
    }
  }
  if (wrong.empty()) return policies;
  return absl::InvalidArgumentError(absl::StrCat("invalid policies: ", absl::StrJoin(wrong, "; ")));
}

absl::StatusOr<std::vector<CallAdmitter*>> ProtectedMethods::Add(const ServiceDescriptor& service,
                                                                 const std::string& host,
                                                                 MakeOperation make_operation) {
  const absl::StatusOr<std::vector<ResolvedPolicy>> resolved = Resolve(service);
  if (!resolved.ok()) return resolved.status();
  std::map<std::string, ResolvedPolicy> policies;
  std::map<std::string, std::unique_ptr<GuardedMethod>> guarded;
  std::vector<CallAdmitter*> admitters;
  for (int i = 0; i < service.method_count(); ++i) {
    const MethodDescriptor& method = *service.method(i);
    const ResolvedPolicy& policy = (*resolved)[i];
    const std::string operation = absl::StrCat(host, MethodPath(method));
    admitters.push_back(nullptr);
    if (policies_.count(operation) > 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(service.full_name(), " is already protected"));
    }
    policies.emplace(operation, policy);
    if (policy.policy().key == MethodPolicy::Key::kNone) continue;
    const std::shared_ptr<GuardLog> log = log_->ForMethod();
    absl::StatusOr<RequestIdentity> identity =
        RequestIdentity::Make(method, policy.policy(), options_, log);
    if (!identity.ok()) return identity.status();
    const std::string recorded_as = absl::StrCat(host, identity->operation());
    const absl::Status valid = CheckOperation(host, recorded_as);
    if (!valid.ok()) return valid;
    auto admitter = std::make_unique<GuardedMethod>(
        *std::move(identity), make_operation(recorded_as, method, policy, log));
    admitters.back() = admitter.get();
    guarded.emplace(operation, std::move(admitter));
  }
  policies_.merge(policies);
  guarded_.merge(guarded);
  return admitters;
}

absl::Status ProtectedMethods::Check() const {
  if (const absl::Status known = CheckNames(); !known.ok()) return known;
  if (const absl::Status chosen = CheckChoices(); !chosen.ok()) return chosen;
  return CheckSharedOperations();
}

absl::Status ProtectedMethods::CheckNames() const {
  std::set<std::string> known;
  for (const auto& [operation, policy] : policies_) known.insert(PathOf(operation));
  for (const auto& [name, config] : options_.methods) {
    if (known.count(name) > 0) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "GuardOptions.methods names ", name, ", which is not a method of a protected service"));
  }
  return absl::OkStatus();
}

absl::Status ProtectedMethods::CheckChoices() const {
  std::vector<std::string> unchosen;
  for (const auto& [operation, policy] : policies_) {
    if (policy.policy().key == MethodPolicy::Key::kNone || policy.unknown_outcome()) continue;
    unchosen.push_back(operation);
  }
  if (unchosen.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the handling of an unknown outcome (the handler fails without stating that "
                   "nothing happened, or its process is lost) is not chosen for ",
                   absl::StrJoin(unchosen, ", "), ". For each of them ", UnknownOutcomeChoices()));
}

absl::Status ProtectedMethods::CheckSharedOperations() const {
  std::map<std::string, std::pair<std::string, const GuardedOperation*>> first;
  std::vector<std::string> faults;
  for (const auto& [name, method] : guarded_) {
    const GuardedOperation& its = method->guarded_operation();
    const auto [other, is_first] = first.try_emplace(its.name, name, &its);
    if (is_first) continue;
    const absl::string_view difference = DifferenceOf(*other->second.second, its);
    if (difference.empty()) continue;
    faults.push_back(absl::StrCat(other->second.first, " and ", name,
                                  " cannot have one operation: ", difference));
  }
  if (faults.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("GuardOptions.methods: ", absl::StrJoin(faults, "; ")));
}

std::string ProtectedMethods::RecordsOf(const std::string& operation) const {
  const auto method = guarded_.find(operation);
  if (method == guarded_.end() || method->second->operation() == operation) return "";
  return absl::StrCat("; its records are of the operation ", method->second->operation());
}

void ProtectedMethods::Log() const {
  for (const auto& [operation, policy] : policies_) {
    log_->Once(LogSeverity::kInfo,
               absl::StrCat(operation, ": ", policy.Description(), RecordsOf(operation)));
    WarnOfShortRetention(*log_, operation, policy.policy());
    if (!policy.is_retried_unguarded()) continue;
    log_->Once(LogSeverity::kWarning,
               absl::StrCat(operation,
                            ": the code sets key NONE, but the proto declares a key, so clients "
                            "retry the method, and each retry runs it again: set KEY_NONE in the "
                            "proto, or name the guarded methods in RetryingChannelArguments() of "
                            "every client"));
  }
}

InterceptorFactory::Paths ProtectedMethods::paths() const {
  InterceptorFactory::Paths paths;
  for (const auto& [operation, method] : guarded_) paths.insert(PathOf(operation));
  return paths;
}

InterceptorFactory::Paths ProtectedMethods::stream_paths() const {
  InterceptorFactory::Paths paths;
  for (const auto& [operation, method] : guarded_) {
    if (policies_.at(operation).policy().stream != MethodPolicy::Stream::kUnguarded) {
      paths.insert(PathOf(operation));
    }
  }
  return paths;
}

std::uint64_t ProtectedMethods::calls_failed_open() const {
  std::uint64_t calls = 0;
  for (const auto& [operation, method] : guarded_) calls += method->calls_failed_open();
  return calls;
}

}  // namespace idempotency::internal
