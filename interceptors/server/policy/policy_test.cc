// From a method's proto and the code to the method's effective policy.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/text_format.h"

#include "client/testing/fake_connection.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/server_guard/server_guard.h"
#include "interceptors/server/policy/policy_option.h"
#include "interceptors/server/policy/policy_rules.h"
#include "interceptors/server/policy/resolved_policy.h"
#include "interceptors/server/testing/fake_ledger.h"
#include "testdata/policies.grpc.pb.h"
#include "testdata/till.grpc.pb.h"

namespace idempotency::internal {
namespace {

using google::protobuf::MethodDescriptor;
using grpc::StatusCode;
using testdata::Declaring;
using testdata::Mistaken;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const google::protobuf::ServiceDescriptor& Service() {
  return *testdata::DeclaringRequest::descriptor()->file()->FindServiceByName("Declaring");
}

const MethodDescriptor& Method(const std::string& name) {
  return *Service().FindMethodByName(name);
}

struct Read {
  MethodPolicy policy;
  PolicyFaults faults;
};

// The policy that `option`, in protobuf's text format, gives a method without one.
Read ReadOption(const std::string& option, const std::string& method = "Plain") {
  v1::Policy parsed;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(option, &parsed)) << option;
  Read read;
  read.policy = PolicyFromOption(Method(method), parsed, read.faults);
  return read;
}

// All faults of the option.
std::string Faults(const std::string& option, const std::string& method = "Plain") {
  Read read = ReadOption(option, method);
  PolicyFaults all = read.faults;
  for (const PolicyFaults& more : {FaultsOf(read.policy), FaultsFor(Method(method), read.policy)}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return absl::StrJoin(all, "; ");
}

TEST(PolicyOptionTest, EveryMemberArrives) {
  const Read read = ReadOption(
      "key: KEY_OPTIONAL retention { seconds: 3600 } reply_retention { seconds: 60 } "
      "tombstone { seconds: 86400 } lease { seconds: 5 nanos: 500000000 }"
      "max_lease { seconds: 60 } in_flight: IN_FLIGHT_WAIT max_wait { seconds: 2 } "
      "on_lease_expiry: LEASE_EXPIRY_REQUIRE_RECOVERY fail_open: true "
      "key_field: 'header.request_id' fingerprint_metadata: ['x-api-version', 'x-region']"
      "reply: REPLY_REFERENCE stream: STREAM_PASS_ON stream_limit_bytes: 4096 "
      "cancel_when_lost: true relaxed_reservation: true");
  EXPECT_THAT(read.faults, IsEmpty());
  const MethodPolicy& policy = read.policy;
  EXPECT_EQ(policy.key, MethodPolicy::Key::kOptional);
  EXPECT_EQ(policy.retention, absl::Hours(1));
  EXPECT_EQ(policy.reply_retention, absl::Minutes(1));
  EXPECT_EQ(policy.tombstone, absl::Hours(24));
  EXPECT_EQ(policy.lease, absl::Milliseconds(5500));
  EXPECT_EQ(policy.max_lease, absl::Minutes(1));
  EXPECT_EQ(policy.in_flight, MethodPolicy::InFlight::kWait);
  EXPECT_EQ(policy.max_wait, absl::Seconds(2));
  EXPECT_EQ(policy.on_unknown_outcome, MethodPolicy::OnUnknownOutcome::kRequireRecovery);
  EXPECT_TRUE(policy.fail_open);
  EXPECT_EQ(policy.key_field, "header.request_id");
  EXPECT_THAT(policy.fingerprint_metadata, ElementsAre("x-api-version", "x-region"));
  EXPECT_EQ(policy.reply, MethodPolicy::Reply::kReference);
  EXPECT_EQ(policy.stream, MethodPolicy::Stream::kPassOn);
  EXPECT_EQ(policy.stream_limit_bytes, 4096u);
  EXPECT_TRUE(policy.cancel_when_lost);
  EXPECT_TRUE(policy.relaxed_reservation);
}

TEST(PolicyOptionTest, WhatIsNotSetKeepsItsDefault) {
  const Read read = ReadOption("lease { seconds: 5 }");
  const MethodPolicy otherwise;
  EXPECT_EQ(read.policy.lease, absl::Seconds(5));
  EXPECT_EQ(read.policy.key, otherwise.key);
  EXPECT_EQ(read.policy.retention, otherwise.retention);
  EXPECT_EQ(read.policy.max_lease, otherwise.max_lease);
  EXPECT_EQ(read.policy.recorded, otherwise.recorded);
  EXPECT_EQ(read.policy.stream_limit_bytes, otherwise.stream_limit_bytes);
  EXPECT_FALSE(read.policy.relaxed_reservation);
  EXPECT_EQ(Faults("lease { seconds: 5 }"), "");
}

TEST(PolicyOptionTest, RecordedStandsInTheDefaultsPlace) {
  const MethodPolicy policy = ReadOption("recorded: [STATUS_CODE_INTERNAL]").policy;
  EXPECT_THAT(policy.recorded, ElementsAre(StatusCode::OK, StatusCode::INTERNAL));
}

TEST(PolicyOptionTest, IndefiniteAndReleasedAreTakenOutOfTheDefault) {
  const MethodPolicy policy = ReadOption(
                                  "indefinite: [STATUS_CODE_NOT_FOUND, STATUS_CODE_INTERNAL]"
                                  "released: [STATUS_CODE_PERMISSION_DENIED, STATUS_CODE_ABORTED]")
                                  .policy;
  std::set<StatusCode> expected = MethodPolicy::DefaultRecorded();
  expected.erase(StatusCode::NOT_FOUND);
  expected.erase(StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(policy.recorded, expected);
  EXPECT_THAT(policy.released, ElementsAre(StatusCode::PERMISSION_DENIED, StatusCode::ABORTED));
}

TEST(PolicyFaultsTest, ACodeInTwoLists) {
  EXPECT_THAT(Faults("recorded: STATUS_CODE_ABORTED released: STATUS_CODE_ABORTED"),
              HasSubstr("ABORTED is in recorded and in released"));
  EXPECT_THAT(Faults("recorded: STATUS_CODE_ABORTED indefinite: STATUS_CODE_ABORTED"),
              HasSubstr("ABORTED is in recorded and in indefinite"));
  EXPECT_THAT(Faults("released: STATUS_CODE_ABORTED indefinite: STATUS_CODE_ABORTED"),
              HasSubstr("ABORTED is in released and in indefinite"));
}

TEST(PolicyFaultsTest, CodesThatAreNone) {
  EXPECT_THAT(Faults("recorded: STATUS_CODE_UNSPECIFIED"), HasSubstr("recorded names 0"));
  EXPECT_THAT(Faults("released: STATUS_CODE_UNSPECIFIED"), HasSubstr("released names 0"));
  EXPECT_THAT(Faults("indefinite: 17"), HasSubstr("indefinite names 17"));
}

TEST(PolicyFaultsTest, CodesOfGrpcsOwn) {
  for (const char* code :
       {"CANCELLED", "UNKNOWN", "DEADLINE_EXCEEDED", "UNAVAILABLE", "UNIMPLEMENTED"}) {
    EXPECT_THAT(Faults(absl::StrCat("recorded: STATUS_CODE_", code)),
                HasSubstr(absl::StrCat("recorded names ", code)));
    EXPECT_THAT(Faults(absl::StrCat("released: STATUS_CODE_", code)),
                HasSubstr(absl::StrCat("released names ", code)));
    // They are always indefinite, and a proto may list them.
    EXPECT_EQ(Faults(absl::StrCat("indefinite: STATUS_CODE_", code)), "");
  }
  EXPECT_THAT(Faults("released: STATUS_CODE_INTERNAL"), HasSubstr("released names INTERNAL"));
  EXPECT_EQ(Faults("recorded: STATUS_CODE_INTERNAL"), "");
}

TEST(PolicyFaultsTest, DurationsAtTheirLimits) {
  EXPECT_EQ(Faults("lease { nanos: 10000000 } max_lease { seconds: 86400 }"
                   "retention { seconds: 31622400 }"),
            "");
  EXPECT_EQ(Faults("lease { seconds: 3600 } in_flight: IN_FLIGHT_WAIT max_wait { seconds: 60 }"),
            "");
  EXPECT_EQ(Faults("lease { seconds: 1 } max_lease { seconds: 1 } retention { seconds: 1 }"), "");
  EXPECT_THAT(Faults("lease { nanos: 9999999 }"), HasSubstr("lease 9.999999ms must be from 10ms"));
  EXPECT_THAT(Faults("lease { seconds: 3601 }"), HasSubstr("lease 1h1s must be from"));
  EXPECT_THAT(Faults("lease {}"), HasSubstr("lease 0 must be from"));
  EXPECT_THAT(Faults("max_lease { seconds: 86401 }"), HasSubstr("max_lease 24h1s"));
  EXPECT_THAT(Faults("retention { seconds: 31622401 }"), HasSubstr("retention 8784h1s"));
  EXPECT_THAT(Faults("lease { nanos: 10000000 } retention { nanos: 999999999 }"),
              HasSubstr("retention 999.999999ms must be from 1s"));
  EXPECT_THAT(Faults("in_flight: IN_FLIGHT_WAIT max_wait { seconds: 61 }"),
              HasSubstr("max_wait 1m1s"));
  EXPECT_THAT(Faults("in_flight: IN_FLIGHT_WAIT max_wait { seconds: -1 }"),
              HasSubstr("max_wait -1s"));
}

TEST(PolicyFaultsTest, DurationsThatAreNone) {
  const std::string huge = absl::StrCat(std::numeric_limits<std::int64_t>::max());
  const std::string low = absl::StrCat(std::numeric_limits<std::int64_t>::min());
  for (const char* member :
       {"lease", "max_lease", "retention", "max_wait", "reply_retention", "tombstone"}) {
    for (const std::string& value :
         {"seconds: " + huge, "seconds: " + low + " nanos: -1", std::string("nanos: 1000000000"),
          std::string("seconds: 5 nanos: -1")}) {
      EXPECT_THAT(Faults(absl::StrCat(member, " { ", value, " }")),
                  HasSubstr(absl::StrCat(member, " is not a valid Duration")));
    }
  }
}

TEST(PolicyFaultsTest, TimesThatExcludeEachOther) {
  EXPECT_THAT(Faults("lease { seconds: 30 } retention { seconds: 29 }"),
              HasSubstr("retention 29s is less than the lease 30s"));
  EXPECT_EQ(Faults("retention { seconds: 29 }"), "") << "a default lease is shortened";
  EXPECT_THAT(Faults("lease { seconds: 20 } max_lease { seconds: 19 }"),
              HasSubstr("max_lease 19s is less than the lease 20s"));
  EXPECT_THAT(Faults("retention { seconds: 60 } reply_retention { seconds: 61 }"),
              HasSubstr("reply_retention 1m1s is greater than the retention 1m"));
  EXPECT_THAT(Faults("reply_retention { nanos: 1 }"), HasSubstr("reply_retention 1ns must be"));
  EXPECT_THAT(Faults("tombstone { seconds: 31622401 }"), HasSubstr("tombstone 8784h1s"));
  EXPECT_THAT(Faults("max_wait { seconds: 1 }"), HasSubstr("max_wait needs in_flight WAIT"));
  EXPECT_THAT(Faults("in_flight: IN_FLIGHT_WAIT"), HasSubstr("in_flight WAIT needs a max_wait"));
}

TEST(PolicyFaultsTest, EnumsOfALaterVersion) {
  for (const char* member : {"key", "in_flight", "on_lease_expiry", "reply", "stream"}) {
    EXPECT_THAT(Faults(absl::StrCat(member, ": 77")),
                HasSubstr(absl::StrCat(member, " has the unknown value 77")));
  }
}

TEST(PolicyFaultsTest, KeyFieldsThatCannotCarryAKey) {
  EXPECT_EQ(Faults("key_field: 'request_id'"), "");
  EXPECT_EQ(Faults("key_field: 'header.request_id'"), "");
  for (const char* name : {"request_uuid", "header", "header.id", "tags", "amount", "request_id.x",
                           ".request_id", "header."}) {
    EXPECT_THAT(Faults(absl::StrCat("key_field: '", name, "'")),
                AllOf(HasSubstr(name), Not(HasSubstr("/idempotency.testdata"))));
  }
}

TEST(PolicyFaultsTest, MetadataThatIsNotTheRequests) {
  for (const char* name : {"", "X-Api-Version", "x api", "grpc-timeout", "idempotency-key",
                           "idempotency-record", ":path"}) {
    EXPECT_THAT(Faults(absl::StrCat("fingerprint_metadata: '", name, "'")),
                HasSubstr(absl::StrCat("fingerprint_metadata \"", name, "\": ")));
  }
  EXPECT_THAT(Faults("fingerprint_metadata: ['x-a', 'x-a']"), HasSubstr("listed twice"));
  EXPECT_EQ(Faults("fingerprint_metadata: ['x-api_version.2', 'blob-bin']"), "");
}

TEST(PolicyFaultsTest, KindsOfMethods) {
  EXPECT_THAT(Faults("stream: STREAM_HOLD_BACK"), HasSubstr("stream is for server-streaming"));
  EXPECT_EQ(Faults("stream: STREAM_HOLD_BACK", "Watch"), "");
  EXPECT_EQ(Faults("stream: STREAM_PASS_ON key: KEY_OPTIONAL", "Watch"), "");
  EXPECT_EQ(Faults("key: KEY_NONE", "Talk"), "");
  for (const char* key : {"KEY_REQUIRED", "KEY_OPTIONAL"}) {
    EXPECT_THAT(Faults(absl::StrCat("key: ", key), "Watch"), HasSubstr("does not set stream"));
    EXPECT_THAT(Faults(absl::StrCat("key: ", key), "Collect"), HasSubstr("key must be NONE"));
    EXPECT_THAT(Faults(absl::StrCat("key: ", key, " stream: STREAM_HOLD_BACK"), "Talk"),
                AllOf(HasSubstr("key must be NONE"), HasSubstr("stream is for")));
  }
  const std::string wait = "in_flight: IN_FLIGHT_WAIT max_wait { seconds: 1 }";
  for (const char* streaming : {"Watch", "Collect", "Talk"}) {
    EXPECT_THAT(Faults(wait, streaming), HasSubstr("in_flight WAIT is for unary methods"));
  }
  EXPECT_THAT(Faults(wait + "stream: STREAM_HOLD_BACK", "Watch"),
              HasSubstr("in_flight WAIT is for unary methods"));
  EXPECT_THAT(Faults("reply: REPLY_REFERENCE stream: STREAM_HOLD_BACK", "Watch"),
              HasSubstr("reply REFERENCE is for unary methods"));
  EXPECT_THAT(Faults("reply: REPLY_REFERENCE key: KEY_NONE", "Watch"),
              Not(HasSubstr("reply REFERENCE is for unary methods")));
}

TEST(PolicyFaultsTest, StreamLimit) {
  EXPECT_EQ(Faults("stream: STREAM_PASS_ON stream_limit_bytes: 8388608", "Watch"), "");
  EXPECT_THAT(Faults("stream: STREAM_PASS_ON stream_limit_bytes: 8388609", "Watch"),
              HasSubstr("stream_limit_bytes"));
}

// The faults of a policy made in code, which no option could express.
std::string FaultsOfMade(const std::function<void(MethodPolicy&)>& change) {
  MethodPolicy policy;
  change(policy);
  return absl::StrJoin(FaultsOf(policy), "; ");
}

TEST(PolicyFaultsTest, CodesThatCodeHasPutInTheWrongList) {
  EXPECT_EQ(FaultsOfMade([](MethodPolicy& policy) { policy.released = {StatusCode::OK}; }),
            "released names OK, which is always recorded");
  EXPECT_EQ(FaultsOfMade([](MethodPolicy& policy) { policy.released = {StatusCode::NOT_FOUND}; }),
            "NOT_FOUND is in recorded and in released");
  EXPECT_EQ(FaultsOfMade([](MethodPolicy& policy) { policy.released = {StatusCode::ABORTED}; }),
            "");
}

TEST(PolicyFaultsTest, AStreamThatCodeAllowsNothingOf) {
  EXPECT_THAT(FaultsOfMade([](MethodPolicy& policy) { policy.stream_limit_bytes = 0; }),
              HasSubstr("stream_limit_bytes"));
  EXPECT_EQ(FaultsOfMade([](MethodPolicy& policy) { policy.stream_limit_bytes = 1; }), "");
}

TEST(PolicyFaultsTest, EachTimeAtItsLimitAndPastIt) {
  const absl::Duration step = absl::Nanoseconds(1);
  const auto max_lease = [](absl::Duration value) {
    return FaultsOfMade([value](MethodPolicy& policy) {
      policy.lease = limits::kMinLease;
      policy.max_lease = value;
    });
  };
  EXPECT_EQ(max_lease(limits::kMinLease), "");
  EXPECT_THAT(max_lease(limits::kMinLease - step), HasSubstr("max_lease"));
  EXPECT_THAT(max_lease(limits::kMinLease - step), HasSubstr("must be from"));
  const auto tombstone = [](absl::Duration value) {
    return FaultsOfMade([value](MethodPolicy& policy) { policy.tombstone = value; });
  };
  EXPECT_EQ(tombstone(limits::kMaxTombstone), "");
  EXPECT_THAT(tombstone(limits::kMaxTombstone + step), HasSubstr("tombstone"));
  const auto reply_retention = [](absl::Duration value) {
    return FaultsOfMade([value](MethodPolicy& policy) {
      policy.retention = limits::kMaxRetention;
      policy.reply_retention = value;
    });
  };
  EXPECT_EQ(reply_retention(limits::kMinReplyRetention), "");
  EXPECT_THAT(reply_retention(limits::kMinReplyRetention - step), HasSubstr("must be from"));
  EXPECT_EQ(reply_retention(limits::kMaxRetention), "");
  EXPECT_THAT(reply_retention(limits::kMaxRetention + step), HasSubstr("must be from"));
}

TEST(PolicyFaultsTest, MetadataNamesAtTheEndsOfWhatIsAllowed) {
  EXPECT_EQ(Faults("fingerprint_metadata: ['az', '09', 'a-b_c.d']"), "");
  for (const std::string name : {"{", "~", "`", "/", ":", "A", "Z"}) {
    EXPECT_THAT(Faults("fingerprint_metadata: ['" + name + "']"),
                HasSubstr("a name may contain only"))
        << name;
  }
}

TEST(PolicyFaultsTest, AFaultyMetadataNameIsReportedAlsoTheSecondTime) {
  EXPECT_THAT(Faults("fingerprint_metadata: ['A', 'A']"), Not(HasSubstr("listed twice")));
}

TEST(PolicyOptionTest, AStreamMayBeLimitedToOneByte) {
  EXPECT_EQ(ReadOption("stream_limit_bytes: 1").policy.stream_limit_bytes, 1u);
}

TEST(PolicyOptionTest, DurationsWithASignInOnePartOnly) {
  // A negative number of nanoseconds: a valid Duration, but invalid for a tombstone.
  EXPECT_THAT(Faults("tombstone { nanos: -1 }"), Not(HasSubstr("not a valid Duration")));
  EXPECT_THAT(Faults("tombstone { seconds: -1 nanos: -1 }"),
              Not(HasSubstr("not a valid Duration")));
  EXPECT_THAT(Faults("tombstone { seconds: -1 }"), Not(HasSubstr("not a valid Duration")));
  EXPECT_THAT(Faults("tombstone { seconds: 1 nanos: -1 }"), HasSubstr("not a valid Duration"));
  EXPECT_THAT(Faults("tombstone { seconds: -1 nanos: 1 }"), HasSubstr("not a valid Duration"));
  EXPECT_THAT(Faults("tombstone { seconds: 315576000000 }"),
              Not(HasSubstr("not a valid Duration")));
  EXPECT_THAT(Faults("tombstone { seconds: 315576000001 }"), HasSubstr("not a valid Duration"));
  EXPECT_THAT(Faults("tombstone { seconds: -315576000000 }"),
              Not(HasSubstr("not a valid Duration")));
  EXPECT_THAT(Faults("tombstone { seconds: -315576000001 }"), HasSubstr("not a valid Duration"));
  EXPECT_THAT(Faults("tombstone { nanos: 999999999 }"), Not(HasSubstr("not a valid Duration")));
  EXPECT_THAT(Faults("tombstone { nanos: -999999999 }"), Not(HasSubstr("not a valid Duration")));
  EXPECT_THAT(Faults("tombstone { nanos: -1000000000 }"), HasSubstr("not a valid Duration"));
}

TEST(PolicyOptionTest, ALeaseThatIsNotGivenIsNoLongerThanTheRetentionAndNoShorterThanTheLeast) {
  EXPECT_EQ(ReadOption("retention { seconds: 7 }").policy.lease, absl::Seconds(7));
  EXPECT_EQ(ReadOption("retention { nanos: 1 }").policy.lease, limits::kMinLease);
  EXPECT_EQ(ReadOption("").policy.lease, MethodPolicy().lease);
}

TEST(MethodPolicyTest, TheCodesThatAreRecordedByDefault) {
  EXPECT_THAT(MethodPolicy::DefaultRecorded(),
              ElementsAre(StatusCode::OK, StatusCode::INVALID_ARGUMENT, StatusCode::NOT_FOUND,
                          StatusCode::ALREADY_EXISTS, StatusCode::PERMISSION_DENIED,
                          StatusCode::FAILED_PRECONDITION, StatusCode::OUT_OF_RANGE));
}

TEST(PolicyFaultsTest, AllAtOnce) {
  EXPECT_THAT(Faults("lease { seconds: 7200 } max_wait { seconds: 1 } key_field: 'nothing'"
                     "recorded: STATUS_CODE_UNKNOWN"),
              AllOf(HasSubstr("lease 2h"), HasSubstr("max_wait needs"), HasSubstr("\"nothing\""),
                    HasSubstr("names UNKNOWN")));
}

constexpr char kAdjusted[] = "/idempotency.testdata.Declaring/Adjusted";
constexpr char kRepeating[] = "/idempotency.testdata.Declaring/Repeating";
constexpr char kReplaced[] = "/idempotency.testdata.Declaring/Replaced";
constexpr char kTurnedOff[] = "/idempotency.testdata.Declaring/TurnedOff";

GuardOptions SomeCode() {
  GuardOptions options;
  options.name_space = "tills";
  options.methods[kAdjusted].adjust = [](MethodPolicy& policy) {
    policy.retention = absl::Hours(48);
  };
  options.methods[kTurnedOff].adjust = [](MethodPolicy& policy) {
    policy.key = MethodPolicy::Key::kNone;
  };
  options.methods[kReplaced].MutableReplacementPolicy().lease = absl::Seconds(7);
  options.methods[kReplaced].MutableReplacementPolicy().on_unknown_outcome =
      MethodPolicy::OnUnknownOutcome::kTakeOver;
  options.methods[kRepeating].recovery = [](const RecoveryCase&) {
    return RecoveryDecision::LeaveUnknown();
  };
  options.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
  return options;
}

MethodPolicy Resolve(const std::string& method, const GuardOptions& options) {
  PolicyFaults faults;
  const ResolvedPolicy resolved = ResolvedPolicy::Of(Method(method), options, faults);
  EXPECT_THAT(faults, IsEmpty());
  return resolved.policy();
}

TEST(ResolvedPolicyTest, AdjustmentsChangeWhatTheProtoDeclares) {
  const MethodPolicy policy = Resolve("Adjusted", SomeCode());
  EXPECT_EQ(policy.retention, absl::Hours(48));
  EXPECT_EQ(policy.lease, absl::Seconds(5));
  EXPECT_EQ(policy.key_field, "request_id");
}

TEST(ResolvedPolicyTest, PoliciesStandInTheProtosPlace) {
  const MethodPolicy policy = Resolve("Replaced", SomeCode());
  EXPECT_EQ(policy.lease, absl::Seconds(7));
  EXPECT_EQ(policy.on_unknown_outcome, MethodPolicy::OnUnknownOutcome::kTakeOver);
}

TEST(ResolvedPolicyTest, AdjustmentsComeAfterPolicies) {
  GuardOptions options = SomeCode();
  options.methods[kReplaced].adjust = [](MethodPolicy& policy) {
    policy.lease += absl::Seconds(1);
  };
  EXPECT_EQ(Resolve("Replaced", options).lease, absl::Seconds(8));
}

TEST(ResolvedPolicyTest, WhatCodeMakesIsCheckedToo) {
  GuardOptions options = SomeCode();
  options.methods[kAdjusted].adjust = [](MethodPolicy& policy) {
    policy.lease = absl::InfiniteDuration();
    policy.key_field = "nothing";
  };
  PolicyFaults faults;
  ResolvedPolicy::Of(Method("Adjusted"), options, faults);
  EXPECT_THAT(absl::StrJoin(faults, "; "), AllOf(HasSubstr("lease inf"), HasSubstr("nothing")));
}

// The start-up log for every method of a service.
TEST(ResolvedPolicyTest, DescriptionsAreTheGoldenOnes) {
  std::string described;
  for (int i = 0; i < Service().method_count(); ++i) {
    PolicyFaults faults;
    const ResolvedPolicy resolved = ResolvedPolicy::Of(*Service().method(i), SomeCode(), faults);
    EXPECT_THAT(faults, IsEmpty());
    absl::StrAppend(&described, Service().method(i)->name(), ": ", resolved.Description(), "\n");
  }
  std::ifstream file(IDEMPOTENCY_POLICIES_GOLDEN);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(described, golden.str());
}

std::unique_ptr<ServerGuard> MakeGuard(GuardOptions options) {
  auto guard = ServerGuard::Create(std::make_unique<FakeConnection>(), std::move(options));
  EXPECT_TRUE(guard.ok()) << guard.status();
  return *std::move(guard);
}

// A descriptor that was made before this library was loaded has the option among its unknown
// fields. Here they are added afterwards: a pool of this program would parse them.
TEST(ResolvedPolicyTest, AnOptionThatCannotBeReadIsAFault) {
  google::protobuf::FileDescriptorProto file;
  testdata::ChargeRequest::descriptor()->file()->CopyTo(&file);
  // The pool has no other file.
  file.clear_dependency();
  for (auto& message : *file.mutable_message_type()) {
    for (auto& field : *message.mutable_field()) field.clear_options();
  }
  google::protobuf::DescriptorPool pool;
  const auto* const built = pool.BuildFile(file);
  ASSERT_NE(built, nullptr);
  const MethodDescriptor& method = *built->FindServiceByName("Till")->FindMethodByName("Balance");
  ASSERT_NE(&method.options(), &google::protobuf::MethodOptions::default_instance());
  const_cast<google::protobuf::MethodOptions&>(method.options())
      .mutable_unknown_fields()
      ->AddLengthDelimited(v1::kPolicyFieldNumber, "\xFF\xFF");
  PolicyFaults faults;
  ResolvedPolicy::Of(method, GuardOptions(), faults);
  EXPECT_THAT(faults, ElementsAre(HasSubstr("(idempotency.v1.policy) cannot be read")));
}

TEST(PoliciesAtStartUpTest, DeclaredOnesAreTaken) {
  const auto guard = MakeGuard(SomeCode());
  Declaring::Service service;
  grpc::ServerBuilder builder;
  EXPECT_EQ(guard->Protect<Declaring>(builder, &service), absl::OkStatus());
  EXPECT_EQ(guard->Install(builder), absl::OkStatus());
}

TEST(PoliciesAtStartUpTest, EveryFaultOfEveryMethodIsReported) {
  GuardOptions options;
  options.name_space = "tills";
  const auto guard = MakeGuard(std::move(options));
  Mistaken::Service service;
  grpc::ServerBuilder builder;
  const absl::Status status = guard->Protect<Mistaken>(builder, &service);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("/idempotency.testdata.Mistaken/NoSuchField: the key field \"request_uuid\""),
            HasSubstr("/idempotency.testdata.Mistaken/ShortMemory: recorded names UNAVAILABLE"),
            HasSubstr("/idempotency.testdata.Mistaken/ShortMemory: retention 5s is less than"),
            HasSubstr("/idempotency.testdata.Mistaken/Waiting: in_flight WAIT is for unary")));
}

// Methods of two services, so that all of them are reported together.
TEST(PoliciesAtStartUpTest, EveryMethodWithoutAChoiceIsReportedWithTheRemedies) {
  GuardOptions options = SomeCode();
  options.on_unknown_outcome = std::nullopt;
  options.methods["/idempotency.testdata.Till/Charge"].policy = MethodPolicy();
  const auto guard = MakeGuard(std::move(options));
  Declaring::Service service;
  testdata::Till::Service till;
  grpc::ServerBuilder builder;
  EXPECT_EQ(guard->Protect<Declaring>(builder, &service), absl::OkStatus());
  EXPECT_EQ(guard->Protect<testdata::Till>(builder, &till), absl::OkStatus());
  const absl::Status status = guard->Install(builder);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("/idempotency.testdata.Declaring/Adjusted, "
                                 "/idempotency.testdata.Declaring/Plain, "
                                 "/idempotency.testdata.Till/Charge. "));
  EXPECT_THAT(message, AllOf(HasSubstr("TAKE_OVER, if a second execution is acceptable"),
                             HasSubstr("GuardOptions::ledger"), HasSubstr("recovery handler"),
                             HasSubstr("GuardOptions::on_unknown_outcome")));
  // Methods with a choice, in the proto, in code or with a recovery handler, and methods that
  // are not guarded.
  for (const char* method : {"Everything", "Replaced", "Repeating", "Read", "Off", "TurnedOff"}) {
    EXPECT_THAT(message, Not(HasSubstr(method)));
  }
}

TEST(PoliciesAtStartUpTest, ALedgerIsAChoice) {
  GuardOptions options = SomeCode();
  options.on_unknown_outcome = std::nullopt;
  options.ledger = std::make_shared<FakeLedger>();
  const auto guard = MakeGuard(std::move(options));
  Declaring::Service service;
  grpc::ServerBuilder builder;
  EXPECT_EQ(guard->Protect<Declaring>(builder, &service), absl::OkStatus());
  EXPECT_EQ(guard->Install(builder), absl::OkStatus());
}

TEST(PoliciesAtStartUpTest, ARelaxedReservationWithoutALedgerThatDecidesIsRefused) {
  GuardOptions options = SomeCode();
  options.on_unknown_outcome = std::nullopt;
  const std::string plain = "/idempotency.testdata.Declaring/Plain";
  options.methods[plain].adjust = [](MethodPolicy& policy) {
    policy.on_unknown_outcome = std::nullopt;
    policy.relaxed_reservation = true;
  };
  Declaring::Service service;
  for (const bool ledger : {false, true}) {
    options.ledger = ledger ? std::make_shared<FakeLedger>() : nullptr;
    const auto guard = MakeGuard(options);
    grpc::ServerBuilder builder;
    const absl::Status status = guard->Protect<Declaring>(builder, &service);
    EXPECT_EQ(status.ok(), ledger) << status;
    if (ledger) continue;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(plain), HasSubstr("relaxed_reservation needs a completion ledger"),
                      HasSubstr("Set GuardOptions::ledger")));
  }
}

TEST(PoliciesAtStartUpTest, AnAdjustmentOfNoMethodIsRefused) {
  GuardOptions options = SomeCode();
  options.methods["/idempotency.testdata.Declaring/Adjsuted"].adjust = [](MethodPolicy&) {};
  const auto guard = MakeGuard(std::move(options));
  Declaring::Service service;
  grpc::ServerBuilder builder;
  EXPECT_EQ(guard->Protect<Declaring>(builder, &service), absl::OkStatus());
  EXPECT_THAT(std::string(guard->Install(builder).message()), HasSubstr("Adjsuted"));
}

}  // namespace
}  // namespace idempotency::internal
