#include "grpc_idempotency/server_guard/guard_options.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

#include "core/record_key_parts.h"
#include "interceptors/server/policy/policy_rules.h"
#include "interceptors/server/request/combined_scope.h"

namespace idempotency {

using internal::FaultsOf;
using internal::PolicyFaults;
using internal::ValidateNamespace;
using internal::ValidateOperation;
using internal::ValidateScopeFunction;

namespace {

// In a smaller cache hardly a reply would fit; more likely the unit is wrong.
constexpr std::size_t kMinReplayCacheBytes = 1024 * 1024;
constexpr absl::Duration kMinReplayMaxAge = absl::Milliseconds(1);
// Bounds how long a record that was removed by hand is still replayed, and so seems to exist.
constexpr absl::Duration kMaxReplayMaxAge = absl::Minutes(10);

absl::Status Wrong(absl::string_view option, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("GuardOptions.", option, " ", why));
}

bool IsFinitePositive(absl::Duration duration) {
  return duration > absl::ZeroDuration() && duration != absl::InfiniteDuration();
}

absl::Status ValidateThreads(const GuardThreads& threads) {
  for (const auto& [name, count] : {std::make_pair("threads.handlers", threads.handlers),
                                    std::make_pair("threads.replies", threads.replies),
                                    std::make_pair("threads.ledger", threads.ledger),
                                    std::make_pair("threads.recovery", threads.recovery),
                                    std::make_pair("threads.loaders", threads.loaders)}) {
    if (count < 1 || count > GuardThreads::kMax) {
      return Wrong(name, absl::StrCat("must be from 1 to ", GuardThreads::kMax));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateReplayCache(const ReplayCacheOptions& options) {
  if (options.capacity_bytes != 0 && options.capacity_bytes < kMinReplayCacheBytes) {
    return Wrong("replay_cache.capacity_bytes", "must be 0 (off) or at least 1 MiB");
  }
  if (options.max_age < kMinReplayMaxAge || options.max_age > kMaxReplayMaxAge) {
    return Wrong("replay_cache.max_age", "must be from 1 ms to 10 minutes");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateGuardOptions(const GuardOptions& options) {
  if (!ValidateNamespace(options.name_space).ok()) {
    return Wrong("name_space", "must be 1-64 characters of a-z, 0-9, '.', '_' and '-'");
  }
  if (!options.downstream_secret.empty() &&
      options.downstream_secret.size() < limits::kMinDownstreamSecretBytes) {
    return Wrong("downstream_secret", "must be empty or at least 16 bytes");
  }
  if (!IsFinitePositive(options.verdict_timeout)) {
    return Wrong("verdict_timeout", "must be over 0 and finite");
  }
  if (!IsFinitePositive(options.recording_timeout)) {
    return Wrong("recording_timeout", "must be over 0 and finite");
  }
  if (options.closing_timeout < absl::ZeroDuration() ||
      options.closing_timeout == absl::InfiniteDuration()) {
    return Wrong("closing_timeout", "must be 0 or more, and finite");
  }
  if (options.max_reply_bytes == 0 || options.max_reply_bytes > limits::kMaxReplyBytes) {
    return Wrong("max_reply_bytes", "must be from 1 byte to 8 MiB");
  }
  const absl::Status algorithms = ValidateFingerprintAlgorithms(options.fingerprint_algorithms);
  if (!algorithms.ok()) return Wrong("fingerprint_algorithms", algorithms.message());
  if (absl::Status valid = ValidateReplayCache(options.replay_cache); !valid.ok()) return valid;
  if (options.background_recovery && options.max_background_recoveries == 0) {
    return Wrong("max_background_recoveries", "must be at least 1");
  }
  if (absl::Status valid = ValidateThreads(options.threads); !valid.ok()) return valid;
  if (absl::Status valid = ValidateScopeFunction(options.scope); !valid.ok()) {
    return Wrong("scope", valid.message());
  }
  for (const auto& [method, config] : options.methods) {
    // Methods have such names; those of HTTP routes, which may share the namespace, have others.
    if (!config.operation.empty() &&
        (!absl::StartsWith(config.operation, "/") || !ValidateOperation(config.operation).ok())) {
      return Wrong(absl::StrCat("methods[", method, "].operation"),
                   absl::StrCat("must begin with '/' and have at most ", limits::kMaxOperationBytes,
                                " bytes of UTF-8 without control characters"));
    }
    if (!config.policy.has_value()) continue;
    const PolicyFaults faults = FaultsOf(*config.policy);
    if (faults.empty()) continue;
    return Wrong(absl::StrCat("methods[", method, "].policy"), absl::StrJoin(faults, "; "));
  }
  return absl::OkStatus();
}

}  // namespace idempotency
