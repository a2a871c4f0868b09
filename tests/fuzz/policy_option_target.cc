// `option (idempotency.v1.policy)` of a method, in a descriptor of any origin. The first byte
// chooses the method, the rest is the option.
#include <grpcpp/support/status_code_enum.h>

#include <string>
#include <string_view>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"

#include "core/declared_policy.h"
#include "core/key_field.h"
#include "core/utf8.h"
#include "grpc_idempotency/limits.h"
#include "interceptors/server/policy/policy_option.h"
#include "interceptors/server/policy/policy_rules.h"
#include "testdata/policies.pb.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/targets.h"

namespace idempotency::internal::fuzz {
namespace {

using google::protobuf::MethodDescriptor;
using google::protobuf::MethodOptions;

const MethodDescriptor& Method(int index) {
  const auto& service =
      *testdata::DeclaringRequest::descriptor()->file()->FindServiceByName("Declaring");
  return *service.method(index % service.method_count());
}

void RequireGoodFaults(const PolicyFaults& faults) {
  for (const std::string& fault : faults) {
    Require(!fault.empty() && IsUtf8(fault), "a fault can be shown");
  }
}

// A policy in which no fault was found.
void RequireGood(const MethodDescriptor& method, const MethodPolicy& policy) {
  Require(policy.lease >= limits::kMinLease && policy.lease <= limits::kMaxLease,
          "the lease has its bounds");
  Require(policy.max_lease >= policy.lease && policy.max_lease <= limits::kMaxMaxLease,
          "the longest lease has its bounds");
  Require(policy.retention >= policy.lease && policy.retention >= limits::kMinRetention &&
              policy.retention <= limits::kMaxRetention,
          "the retention has its bounds");
  Require(!policy.reply_retention || (*policy.reply_retention >= limits::kMinReplyRetention &&
                                      *policy.reply_retention <= policy.retention),
          "the reply's retention has its bounds");
  Require(policy.tombstone >= absl::ZeroDuration() && policy.tombstone <= limits::kMaxTombstone,
          "the tombstone has its bounds");
  Require((policy.in_flight == MethodPolicy::InFlight::kWait) ==
              (policy.WaitInFlight() > absl::ZeroDuration()),
          "who waits has a time for it");
  Require(policy.recorded.count(grpc::StatusCode::OK) == 1, "OK is recorded");
  for (const grpc::StatusCode code : policy.released) {
    Require(policy.recorded.count(code) == 0, "what is released is not recorded");
  }
  for (const grpc::StatusCode code :
       {grpc::StatusCode::CANCELLED, grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::UNKNOWN,
        grpc::StatusCode::DEADLINE_EXCEEDED, grpc::StatusCode::UNIMPLEMENTED}) {
    Require(policy.recorded.count(code) + policy.released.count(code) == 0,
            "gRPC's own codes say nothing");
  }
  Require(policy.key_field.empty() || policy.key == MethodPolicy::Key::kNone ||
              KeyField::Resolve(method, policy.key_field).ok(),
          "the key's field is there");
}

// From a descriptor that was built without the project's option: it is unknown there.
void ReadDeclared(const v1::Policy& option) {
  MethodOptions known;
  *known.MutableExtension(v1::policy) = option;
  MethodOptions options;
  auto& unknown = *options.GetReflection()->MutableUnknownFields(&options);
  unknown.AddLengthDelimited(v1::policy.number(), option.SerializeAsString());
  const auto declared = DeclaredPolicy(options);
  Require(
      declared.ok() && declared->SerializeAsString() == DeclaredPolicy(known)->SerializeAsString(),
      "an option is the same, known or not");
}

}  // namespace

void PolicyOption(std::string_view bytes) {
  Input input(bytes);
  const MethodDescriptor& method = Method(input.Byte());
  v1::Policy option;
  const std::string_view message = input.Rest();
  if (!option.ParseFromArray(message.data(), static_cast<int>(message.size()))) return;
  ReadDeclared(option);

  Require(KeyRule(method, option) != v1::Policy::KEY_UNSPECIFIED, "a key is wanted, or is not");
  PolicyFaults faults;
  const MethodPolicy policy = PolicyFromOption(method, option, faults);
  for (const PolicyFaults& more : {FaultsOf(policy), FaultsFor(method, policy)}) {
    faults.insert(faults.end(), more.begin(), more.end());
  }
  RequireGoodFaults(faults);
  if (faults.empty()) RequireGood(method, policy);
}

}  // namespace idempotency::internal::fuzz
