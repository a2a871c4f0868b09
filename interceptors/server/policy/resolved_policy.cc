#include "interceptors/server/policy/resolved_policy.h"

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

#include "core/declared_policy.h"
#include "grpc_idempotency/grpc_status.h"
#include "interceptors/server/policy/policy_option.h"
#include "interceptors/server/policy/policy_rules.h"

namespace idempotency::internal {
namespace {

using google::protobuf::MethodDescriptor;

absl::string_view TextOf(MethodPolicy::Key key) {
  switch (key) {
    case MethodPolicy::Key::kRequired:
      return "REQUIRED";
    case MethodPolicy::Key::kOptional:
      return "OPTIONAL";
    case MethodPolicy::Key::kNone:
      return "NONE";
  }
  return "";
}

absl::string_view TextOf(MethodPolicy::Reply reply) {
  switch (reply) {
    case MethodPolicy::Reply::kFull:
      return "FULL";
    case MethodPolicy::Reply::kStatusOnly:
      return "STATUS_ONLY";
    case MethodPolicy::Reply::kReference:
      return "REFERENCE";
  }
  return "";
}

absl::string_view TextOf(MethodPolicy::Stream stream) {
  switch (stream) {
    case MethodPolicy::Stream::kUnguarded:
      return "UNSPECIFIED";
    case MethodPolicy::Stream::kHoldBack:
      return "HOLD_BACK";
    case MethodPolicy::Stream::kPassOn:
      return "PASS_ON";
  }
  return "";
}

absl::string_view TextOf(std::optional<MethodPolicy::OnUnknownOutcome> choice) {
  if (!choice) return "UNSPECIFIED";
  return *choice == MethodPolicy::OnUnknownOutcome::kTakeOver ? "TAKE_OVER" : "REQUIRE_RECOVERY";
}

std::string TextOf(const std::set<grpc::StatusCode>& codes) {
  std::vector<std::string> names;
  for (const grpc::StatusCode code : codes) {
    if (code != grpc::StatusCode::OK) names.push_back(StatusCodeName(code));
  }
  return absl::StrCat("[", absl::StrJoin(names, ", "), "]");
}

struct Member {
  absl::string_view name;
  std::string value;
  // Included even if it is the default.
  bool always;
};

// In the same order for every policy.
std::vector<Member> MembersOf(const MethodPolicy& policy) {
  const bool waits = policy.in_flight == MethodPolicy::InFlight::kWait;
  return {
      {"key", std::string(TextOf(policy.key)), true},
      {"in_flight", waits ? "WAIT" : "REJECT", true},
      {"max_wait", absl::FormatDuration(policy.max_wait), false},
      {"lease", absl::FormatDuration(policy.lease), true},
      {"max_lease", absl::FormatDuration(policy.max_lease), true},
      {"retention", absl::FormatDuration(policy.retention), true},
      {"reply_retention",
       policy.reply_retention ? absl::FormatDuration(*policy.reply_retention) : "as the record",
       false},
      {"tombstone", absl::FormatDuration(policy.tombstone), false},
      {"on_lease_expiry", std::string(TextOf(policy.on_unknown_outcome)), true},
      {"recorded", TextOf(policy.recorded), false},
      {"released", TextOf(policy.released), false},
      {"relaxed_reservation", policy.relaxed_reservation ? "true" : "false", false},
      {"fail_open", policy.fail_open ? "true" : "false", true},
      {"cancel_when_lost", policy.cancel_when_lost ? "true" : "false", false},
      {"key_field", absl::StrCat("\"", policy.key_field, "\""), false},
      {"fingerprint_metadata",
       absl::StrCat("[", absl::StrJoin(policy.fingerprint_metadata, ", "), "]"), false},
      {"reply", std::string(TextOf(policy.reply)), true},
      {"stream", std::string(TextOf(policy.stream)), false},
      {"stream_limit_bytes", absl::StrCat(policy.stream_limit_bytes), false},
  };
}

enum class Origin { kProto, kCode, kDefault };

// By value: a proto or code that repeats the default is not the origin.
Origin OriginOf(const std::string& by_default, const std::string& declared,
                const std::string& resolved) {
  if (resolved != declared) return Origin::kCode;
  return resolved != by_default ? Origin::kProto : Origin::kDefault;
}

absl::string_view TextOf(Origin origin) {
  switch (origin) {
    case Origin::kProto:
      return "proto";
    case Origin::kCode:
      return "code";
    case Origin::kDefault:
      return "default";
  }
  return "";
}

MethodPolicy Declared(const MethodDescriptor& method, PolicyFaults& faults) {
  const absl::StatusOr<v1::Policy> option = DeclaredPolicy(method.options());
  if (option.ok()) return PolicyFromOption(method, *option, faults);
  faults.emplace_back(option.status().message());
  return MethodPolicy::DefaultFor(method);
}

}  // namespace

ResolvedPolicy ResolvedPolicy::Of(const MethodDescriptor& method, const GuardOptions& options,
                                  PolicyFaults& faults) {
  const std::string path = MethodPath(method);
  ResolvedPolicy policy;
  policy.default_ = MethodPolicy::DefaultFor(method);
  policy.declared_ = Declared(method, faults);
  const auto found = options.methods.find(path);
  const MethodConfig config = found != options.methods.end() ? found->second : MethodConfig();
  policy.resolved_ = config.policy.value_or(policy.declared_);
  if (config.adjust) config.adjust(policy.resolved_);
  policy.is_retried_unguarded_ = policy.resolved_.key == MethodPolicy::Key::kNone &&
                                 IsDeclaredGuarded(method) && !IsHarmlessToRepeat(method);
  policy.unknown_outcome_ = ChosenUnknownOutcome(policy.resolved_, config.recovery, options);
  policy.unknown_outcome_in_words_ =
      DescribeUnknownOutcome(policy.unknown_outcome_, policy.resolved_, config.recovery, options);
  if (!policy.resolved_.on_unknown_outcome && !config.recovery) {
    policy.resolved_.on_unknown_outcome = options.on_unknown_outcome;
  }
  std::string relaxation = RelaxationFault(policy.resolved_, policy.unknown_outcome_, options);
  if (!relaxation.empty()) faults.push_back(std::move(relaxation));
  for (std::string& fault : FaultsOf(policy.resolved_)) faults.push_back(std::move(fault));
  for (std::string& fault : FaultsFor(method, policy.resolved_)) faults.push_back(std::move(fault));
  return policy;
}

std::string ResolvedPolicy::Description() const {
  const std::vector<Member> by_default = MembersOf(default_);
  const std::vector<Member> declared = MembersOf(declared_);
  const std::vector<Member> resolved = MembersOf(resolved_);
  if (resolved_.key == MethodPolicy::Key::kNone) {
    const Origin origin = OriginOf(by_default[0].value, declared[0].value, resolved[0].value);
    return absl::StrCat("not guarded: key NONE (", TextOf(origin), ")");
  }
  std::vector<std::string> groups;
  for (const Origin origin : {Origin::kProto, Origin::kCode, Origin::kDefault}) {
    std::vector<std::string> members;
    for (std::size_t i = 0; i < resolved.size(); ++i) {
      const bool is_shown = origin != Origin::kDefault || resolved[i].always;
      if (!is_shown ||
          OriginOf(by_default[i].value, declared[i].value, resolved[i].value) != origin) {
        continue;
      }
      members.push_back(absl::StrCat(resolved[i].name, " ", resolved[i].value));
    }
    if (members.empty()) continue;
    groups.push_back(absl::StrCat(TextOf(origin), ": ", absl::StrJoin(members, ", ")));
  }
  groups.push_back(unknown_outcome_in_words_);
  return absl::StrJoin(groups, "; ");
}

}  // namespace idempotency::internal
