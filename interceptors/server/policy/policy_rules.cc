#include "interceptors/server/policy/policy_rules.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "core/key_field.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/limits.h"
#include "interceptors/server/policy/disposition_rule.h"

namespace idempotency::internal {
namespace {

using google::protobuf::MethodDescriptor;

void CheckRange(absl::string_view member, absl::Duration value, absl::Duration min,
                absl::Duration max, PolicyFaults& faults) {
  if (value >= min && value <= max) return;
  faults.push_back(absl::StrCat(member, " ", absl::FormatDuration(value), " must be from ",
                                absl::FormatDuration(min), " to ", absl::FormatDuration(max)));
}

void CheckNotUnderLease(absl::string_view member, absl::Duration value, absl::Duration lease,
                        PolicyFaults& faults) {
  if (value >= lease) return;
  faults.push_back(absl::StrCat(member, " ", absl::FormatDuration(value),
                                " is less than the lease ", absl::FormatDuration(lease)));
}

void CheckTimes(const MethodPolicy& policy, PolicyFaults& faults) {
  CheckRange("lease", policy.lease, limits::kMinLease, limits::kMaxLease, faults);
  CheckRange("max_lease", policy.max_lease, limits::kMinLease, limits::kMaxMaxLease, faults);
  CheckRange("retention", policy.retention, limits::kMinRetention, limits::kMaxRetention, faults);
  CheckRange("max_wait", policy.max_wait, absl::ZeroDuration(), limits::kMaxWait, faults);
  CheckRange("tombstone", policy.tombstone, absl::ZeroDuration(), limits::kMaxTombstone, faults);
  if (policy.reply_retention) {
    CheckRange("reply_retention", *policy.reply_retention, limits::kMinReplyRetention,
               limits::kMaxRetention, faults);
    if (*policy.reply_retention > policy.retention) {
      faults.push_back(
          absl::StrCat("reply_retention ", absl::FormatDuration(*policy.reply_retention),
                       " is greater than the retention ", absl::FormatDuration(policy.retention)));
    }
  }
  CheckNotUnderLease("max_lease", policy.max_lease, policy.lease, faults);
  CheckNotUnderLease("retention", policy.retention, policy.lease, faults);
  const bool waits = policy.in_flight == MethodPolicy::InFlight::kWait;
  if (waits && policy.max_wait == absl::ZeroDuration()) {
    faults.push_back("in_flight WAIT needs a max_wait");
  }
  if (!waits && policy.max_wait != absl::ZeroDuration()) {
    faults.push_back("max_wait needs in_flight WAIT");
  }
}

void CheckCodes(const MethodPolicy& policy, PolicyFaults& faults) {
  const auto refuse = [&faults](absl::string_view member, grpc::StatusCode code) {
    faults.push_back(absl::StrCat(member, " names ", StatusCodeName(code),
                                  ", which gRPC itself returns: it proves nothing"));
  };
  for (const grpc::StatusCode code : policy.recorded) {
    if (!CanBeRecorded(code)) refuse("recorded", code);
  }
  for (const grpc::StatusCode code : policy.released) {
    if (code == grpc::StatusCode::OK) {
      faults.push_back("released names OK, which is always recorded");
    } else if (!CanBeReleased(code)) {
      refuse("released", code);
    } else if (policy.recorded.count(code) > 0) {
      faults.push_back(absl::StrCat(StatusCodeName(code), " is in recorded and in released"));
    }
  }
}

// The reason why no metadata entry of this name can belong to a request, or "".
absl::string_view Objection(absl::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), allowed)) {
    return "a name may contain only a-z, 0-9, '-', '_' and '.'";
  }
  if (absl::StartsWith(name, "grpc-")) return "grpc-* is reserved for gRPC";
  if (absl::StartsWith(name, "idempotency-")) return "idempotency-* is reserved for the guard";
  return "";
}

void CheckMetadata(const MethodPolicy& policy, PolicyFaults& faults) {
  std::set<std::string> seen;
  for (const std::string& name : policy.fingerprint_metadata) {
    absl::string_view objection = Objection(name);
    if (objection.empty() && !seen.insert(name).second) objection = "it is listed twice";
    if (objection.empty()) continue;
    faults.push_back(absl::StrCat("fingerprint_metadata \"", name, "\": ", objection));
  }
}

void CheckStream(const MethodDescriptor& method, const MethodPolicy& policy, PolicyFaults& faults) {
  const bool unary = !method.client_streaming() && !method.server_streaming();
  const bool captured = policy.stream != MethodPolicy::Stream::kUnguarded;
  if (unary) {
    if (captured) faults.push_back("stream is for server-streaming methods, and this one is unary");
    return;
  }
  if (policy.in_flight == MethodPolicy::InFlight::kWait) {
    faults.push_back("in_flight WAIT is for unary methods, and this one is streaming");
  }
  if (captured && policy.reply == MethodPolicy::Reply::kReference) {
    faults.push_back("reply REFERENCE is for unary methods, and this one is streaming");
  }
  if (method.client_streaming()) {
    if (captured) faults.push_back("stream is for methods whose requests are not a stream");
    if (policy.key != MethodPolicy::Key::kNone) {
      faults.push_back("key must be NONE: a method whose requests are a stream is not guarded");
    }
  } else if (policy.key != MethodPolicy::Key::kNone && !captured) {
    faults.push_back("key must be NONE for a streaming method that does not set stream");
  }
}

void CheckKeyField(const MethodDescriptor& method, const MethodPolicy& policy,
                   PolicyFaults& faults) {
  if (policy.key_field.empty()) return;
  const absl::Status found = KeyField::Resolve(method, policy.key_field).status();
  if (found.ok()) return;
  absl::string_view why = found.message();
  absl::ConsumePrefix(&why, absl::StrCat(MethodPath(method), ": "));
  faults.emplace_back(why);
}

}  // namespace

PolicyFaults FaultsOf(const MethodPolicy& policy) {
  PolicyFaults faults;
  CheckTimes(policy, faults);
  CheckCodes(policy, faults);
  if (policy.stream_limit_bytes == 0 || policy.stream_limit_bytes > limits::kMaxReplyBytes) {
    faults.push_back("stream_limit_bytes must be from 1 byte to 8 MiB");
  }
  return faults;
}

PolicyFaults FaultsFor(const MethodDescriptor& method, const MethodPolicy& policy) {
  PolicyFaults faults;
  CheckStream(method, policy, faults);
  CheckKeyField(method, policy, faults);
  CheckMetadata(policy, faults);
  return faults;
}

}  // namespace idempotency::internal
