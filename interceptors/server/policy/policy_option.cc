#include "interceptors/server/policy/policy_option.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/repeated_field.h"

#include "core/declared_policy.h"
#include "core/wire_time.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

void ReadDuration(absl::string_view member, const google::protobuf::Duration& wire,
                  absl::Duration& value, PolicyFaults& faults) {
  if (IsValid(wire)) {
    value = FromWire(wire);
  } else {
    faults.push_back(absl::StrCat(member, " is not a valid Duration"));
  }
}

void ReadDurations(const v1::Policy& option, MethodPolicy& policy, PolicyFaults& faults) {
  if (option.has_retention()) {
    ReadDuration("retention", option.retention(), policy.retention, faults);
  }
  if (option.has_reply_retention()) {
    absl::Duration kept = policy.retention;
    ReadDuration("reply_retention", option.reply_retention(), kept, faults);
    policy.reply_retention = kept;
  }
  if (option.has_tombstone()) {
    ReadDuration("tombstone", option.tombstone(), policy.tombstone, faults);
  }
  if (option.has_lease()) {
    ReadDuration("lease", option.lease(), policy.lease, faults);
  } else {
    // As the service does without a given lease.
    policy.lease = std::min(policy.lease, std::max(policy.retention, limits::kMinLease));
  }
  if (option.has_max_lease()) {
    ReadDuration("max_lease", option.max_lease(), policy.max_lease, faults);
  }
  if (option.has_max_wait()) ReadDuration("max_wait", option.max_wait(), policy.max_wait, faults);
}

template <typename Value>
using Values = std::map<int, Value>;

// UNSPECIFIED leaves the default.
template <typename Value>
void ReadEnum(absl::string_view member, int number, const Values<Value>& values, Value& value,
              PolicyFaults& faults) {
  if (number == 0) return;
  if (const auto it = values.find(number); it != values.end()) {
    value = it->second;
  } else {
    faults.push_back(absl::StrCat(member, " has the unknown value ", number));
  }
}

void ReadEnums(const v1::Policy& option, MethodPolicy& policy, PolicyFaults& faults) {
  using InFlight = MethodPolicy::InFlight;
  using Expiry = MethodPolicy::OnUnknownOutcome;
  using Reply = MethodPolicy::Reply;
  using Stream = MethodPolicy::Stream;
  ReadEnum("in_flight", option.in_flight(),
           Values<InFlight>{{v1::Policy::IN_FLIGHT_REJECT, InFlight::kReject},
                            {v1::Policy::IN_FLIGHT_WAIT, InFlight::kWait}},
           policy.in_flight, faults);
  ReadEnum(
      "on_lease_expiry", option.on_lease_expiry(),
      Values<std::optional<Expiry>>{{v1::LEASE_EXPIRY_TAKE_OVER, Expiry::kTakeOver},
                                    {v1::LEASE_EXPIRY_REQUIRE_RECOVERY, Expiry::kRequireRecovery}},
      policy.on_unknown_outcome, faults);
  ReadEnum("reply", option.reply(),
           Values<Reply>{{v1::Policy::REPLY_FULL, Reply::kFull},
                         {v1::Policy::REPLY_STATUS_ONLY, Reply::kStatusOnly},
                         {v1::Policy::REPLY_REFERENCE, Reply::kReference}},
           policy.reply, faults);
  ReadEnum("stream", option.stream(),
           Values<Stream>{{v1::Policy::STREAM_HOLD_BACK, Stream::kHoldBack},
                          {v1::Policy::STREAM_PASS_ON, Stream::kPassOn}},
           policy.stream, faults);
}

void ReadKey(const google::protobuf::MethodDescriptor& method, const v1::Policy& option,
             MethodPolicy& policy, PolicyFaults& faults) {
  using Key = MethodPolicy::Key;
  ReadEnum("key", KeyRule(method, option),
           Values<Key>{{v1::Policy::KEY_REQUIRED, Key::kRequired},
                       {v1::Policy::KEY_OPTIONAL, Key::kOptional},
                       {v1::Policy::KEY_NONE, Key::kNone}},
           policy.key, faults);
}

using Codes = std::set<grpc::StatusCode>;

Codes ReadCodes(absl::string_view member, const google::protobuf::RepeatedField<int>& list,
                PolicyFaults& faults) {
  Codes codes;
  for (const int number : list) {
    if (number == v1::STATUS_CODE_UNSPECIFIED || !v1::StatusCode_IsValid(number)) {
      faults.push_back(absl::StrCat(member, " names ", number, ", which is not a status code"));
    } else {
      codes.insert(static_cast<grpc::StatusCode>(number));
    }
  }
  return codes;
}

void RefuseInBoth(absl::string_view one, const Codes& in_one, absl::string_view other,
                  const Codes& in_other, PolicyFaults& faults) {
  for (const grpc::StatusCode code : in_one) {
    if (in_other.count(code) == 0) continue;
    faults.push_back(absl::StrCat(StatusCodeName(code), " is in ", one, " and in ", other));
  }
}

void ReadOutcomes(const v1::Policy& option, MethodPolicy& policy, PolicyFaults& faults) {
  const Codes recorded = ReadCodes("recorded", option.recorded(), faults);
  const Codes released = ReadCodes("released", option.released(), faults);
  const Codes indefinite = ReadCodes("indefinite", option.indefinite(), faults);
  RefuseInBoth("recorded", recorded, "released", released, faults);
  RefuseInBoth("recorded", recorded, "indefinite", indefinite, faults);
  RefuseInBoth("released", released, "indefinite", indefinite, faults);
  if (!recorded.empty()) {
    policy.recorded = recorded;
    policy.recorded.insert(grpc::StatusCode::OK);
  } else {
    for (const grpc::StatusCode code : released) policy.recorded.erase(code);
    for (const grpc::StatusCode code : indefinite) policy.recorded.erase(code);
  }
  policy.released = released;
}

}  // namespace

MethodPolicy PolicyFromOption(const google::protobuf::MethodDescriptor& method,
                              const v1::Policy& option, PolicyFaults& faults) {
  MethodPolicy policy = MethodPolicy::DefaultFor(method);
  ReadKey(method, option, policy, faults);
  ReadDurations(option, policy, faults);
  ReadEnums(option, policy, faults);
  ReadOutcomes(option, policy, faults);
  policy.relaxed_reservation = option.relaxed_reservation();
  policy.fail_open = option.fail_open();
  policy.cancel_when_lost = option.cancel_when_lost();
  policy.key_field = option.key_field();
  policy.fingerprint_metadata.assign(option.fingerprint_metadata().begin(),
                                     option.fingerprint_metadata().end());
  if (option.stream_limit_bytes() > 0) policy.stream_limit_bytes = option.stream_limit_bytes();
  return policy;
}

}  // namespace idempotency::internal
