// The guard's decisions that need no connection, thread or server.
#include <gmock/gmock.h>
#include <grpcpp/server_context.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/server_guard/guard_options.h"
#include "grpc_idempotency/server_guard/scope.h"
#include "interceptors/server/admission/rejection.h"
#include "interceptors/server/policy/disposition_rule.h"
#include "interceptors/server/policy/unknown_outcome.h"
#include "interceptors/server/testing/fake_ledger.h"
#include "interceptors/server/wire/record_metadata.h"
#include "testdata/till.pb.h"
#include "tests/support/context_peers.h"

namespace idempotency::internal {
namespace {

constexpr UnknownOutcome kRunAgain = UnknownOutcome::kRunAgain;
constexpr UnknownOutcome kLookUpLedger = UnknownOutcome::kLookUpLedger;
constexpr UnknownOutcome kRecover = UnknownOutcome::kRecover;

TEST(DispositionTest, WhereItMayRunAgainNoCodeLetsItRunAtOnce) {
  const MethodPolicy policy;
  for (const UnknownOutcome chosen : {kRunAgain, kLookUpLedger}) {
    for (int c = 0; c <= 16; ++c) {
      const auto code = static_cast<grpc::StatusCode>(c);
      const bool recorded = MethodPolicy::DefaultRecorded().count(code) > 0;
      const bool lapses =
          code == grpc::StatusCode::CANCELLED || code == grpc::StatusCode::DEADLINE_EXCEEDED;
      EXPECT_EQ(DispositionFor(policy, chosen, code, false), recorded ? Disposition::kComplete
                                                             : lapses ? Disposition::kLetLapse
                                                                      : Disposition::kReleaseLater)
          << c;
      EXPECT_EQ(DispositionFor(policy, chosen, code, true),
                recorded ? Disposition::kComplete : Disposition::kRelease)
          << c;
    }
  }
}

TEST(DispositionTest, EveryIndefiniteCodeUnderRecoveryIsUnknown) {
  for (int c = 0; c <= 16; ++c) {
    const auto code = static_cast<grpc::StatusCode>(c);
    const bool recorded = MethodPolicy::DefaultRecorded().count(code) > 0;
    EXPECT_EQ(DispositionFor(MethodPolicy(), kRecover, code, false),
              recorded ? Disposition::kComplete : Disposition::kReleaseUnknown)
        << c;
  }
}

TEST(DispositionTest, OkAndLibraryCodesAreNotForThePolicyToDecide) {
  MethodPolicy policy;
  policy.recorded = {};
  EXPECT_EQ(DispositionFor(policy, kRunAgain, grpc::StatusCode::OK, true), Disposition::kComplete);
  EXPECT_EQ(DispositionFor(policy, kRunAgain, grpc::StatusCode::NOT_FOUND, false),
            Disposition::kReleaseLater);
  policy.recorded = {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::INTERNAL};
  EXPECT_EQ(DispositionFor(policy, kRunAgain, grpc::StatusCode::UNAVAILABLE, false),
            Disposition::kReleaseLater);
  EXPECT_EQ(DispositionFor(policy, kRunAgain, grpc::StatusCode::INTERNAL, false),
            Disposition::kComplete);
}

TEST(DispositionTest, ReleasedCodesMeanNoEffectUnderEitherPolicy) {
  for (const UnknownOutcome chosen : {kRunAgain, kRecover}) {
    MethodPolicy policy;
    for (int code = 0; code <= 16; ++code) {
      policy.released.insert(static_cast<grpc::StatusCode>(code));
    }
    policy.recorded = {grpc::StatusCode::NOT_FOUND};
    const auto disposition = [&](grpc::StatusCode code) {
      return DispositionFor(policy, chosen, code, false);
    };
    EXPECT_EQ(disposition(grpc::StatusCode::RESOURCE_EXHAUSTED), Disposition::kRelease);
    EXPECT_EQ(disposition(grpc::StatusCode::OK), Disposition::kComplete);
    EXPECT_EQ(disposition(grpc::StatusCode::NOT_FOUND), Disposition::kComplete);
    EXPECT_EQ(disposition(grpc::StatusCode::CANCELLED),
              chosen == kRecover ? Disposition::kReleaseUnknown : Disposition::kLetLapse);
    EXPECT_EQ(disposition(grpc::StatusCode::INTERNAL),
              chosen == kRecover ? Disposition::kReleaseUnknown : Disposition::kReleaseLater);
  }
}

TEST(ReleasePauseTest, GrowsWithTheAttemptUpToAMinute) {
  EXPECT_EQ(ReleasePause(1), absl::Seconds(1));
  EXPECT_EQ(ReleasePause(2), absl::Seconds(4));
  EXPECT_EQ(ReleasePause(3), absl::Seconds(16));
  EXPECT_EQ(ReleasePause(4), absl::Minutes(1));
  EXPECT_EQ(ReleasePause(4'000'000'000), absl::Minutes(1));
}

TEST(UnknownOutcomeTest, TheMostSpecificChoiceDecides) {
  MethodPolicy policy;
  GuardOptions options;
  RecoveryHandler recovery;
  EXPECT_EQ(ChosenUnknownOutcome(policy, recovery, options), std::nullopt);
  options.ledger = std::make_shared<FakeLedger>();
  EXPECT_EQ(ChosenUnknownOutcome(policy, recovery, options), kLookUpLedger);
  options.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
  EXPECT_EQ(ChosenUnknownOutcome(policy, recovery, options), kRunAgain);
  recovery = [](const RecoveryCase&) { return RecoveryDecision::LeaveUnknown(); };
  EXPECT_EQ(ChosenUnknownOutcome(policy, recovery, options), kRecover);
  policy.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
  EXPECT_EQ(ChosenUnknownOutcome(policy, recovery, options), kRunAgain);
  policy.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  EXPECT_EQ(ChosenUnknownOutcome(policy, {}, options), kRecover);
}

TEST(UnknownOutcomeTest, TheWireHasAnExplicitValue) {
  EXPECT_EQ(LeaseExpiryFor(kRunAgain), v1::LEASE_EXPIRY_TAKE_OVER);
  EXPECT_EQ(LeaseExpiryFor(kLookUpLedger), v1::LEASE_EXPIRY_TAKE_OVER);
  EXPECT_EQ(LeaseExpiryFor(kRecover), v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
}

TEST(MethodPolicyTest, DefaultFollowsIdempotencyLevel) {
  const auto* till = testdata::ChargeRequest::descriptor()->file()->service(0);
  EXPECT_EQ(MethodPolicy::DefaultFor(*till->FindMethodByName("Charge")).key,
            MethodPolicy::Key::kRequired);
  EXPECT_EQ(MethodPolicy::DefaultFor(*till->FindMethodByName("Balance")).key,
            MethodPolicy::Key::kNone);
}

TEST(RecordMetadataTest, ContainsTheAvailableFields) {
  EXPECT_TRUE(RecordMetadata("", absl::InfinitePast(), false).empty());
  const MetadataEntries all =
      RecordMetadata("id", absl::FromUnixSeconds(1) + absl::Milliseconds(999), true);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].second, "1970-01-01T00:00:01Z");
  for (const auto& [key, value] : all) EXPECT_TRUE(IsRecordMetadata(key));
}

TEST(RejectionTest, VerdictsThatDoNotRun) {
  v1::ReserveResponse verdict;
  EXPECT_EQ(ReasonOf(RejectionFor(verdict)), Reason::kStoreUnavailable);
  verdict.mutable_expired();
  EXPECT_EQ(ReasonOf(RejectionFor(verdict)), Reason::kKeyExpired);
  verdict.mutable_mismatch();
  EXPECT_EQ(ReasonOf(RejectionFor(verdict)), Reason::kKeyReused);
  verdict.mutable_outcome_unknown();
  EXPECT_EQ(ReasonOf(RejectionFor(verdict)), Reason::kOutcomeUnknown);
  v1::Reply& reply = *verdict.mutable_replay()->mutable_reply();
  reply.set_content(v1::REPLY_CONTENT_STATUS_ONLY);
  EXPECT_EQ(ReasonOf(RejectionFor(verdict)), Reason::kReplyNotKept);
  reply.set_code(5);
  EXPECT_TRUE(RejectionFor(verdict).ok());
  reply.set_content(static_cast<v1::ReplyContent>(99));  // from a newer service
  EXPECT_EQ(ReasonOf(RejectionFor(verdict)), Reason::kReplyNotKept);
  for (const v1::ReplyContent content : {v1::REPLY_CONTENT_REDACTED, v1::REPLY_CONTENT_REFERENCE}) {
    reply.set_content(content);
    EXPECT_TRUE(RejectionFor(verdict).ok());
  }
  verdict.mutable_replay()->mutable_reply()->set_content(v1::REPLY_CONTENT_FULL);
  EXPECT_TRUE(RejectionFor(verdict).ok());
  verdict.mutable_reserved();
  EXPECT_TRUE(RejectionFor(verdict).ok());
}

TEST(RejectionTest, RetryDelayIsSentTwice) {
  v1::ReserveResponse verdict;
  verdict.mutable_in_flight()->mutable_retry_after()->set_nanos(200'000'000);
  const absl::Status rejection = RejectionFor(verdict);
  EXPECT_EQ(DetailsOf(rejection).retry_delay, absl::Milliseconds(200));
  const v1::Reply reply = RejectionReply(rejection, "id");
  EXPECT_TRUE(reply.initial_metadata().empty());
  ASSERT_EQ(reply.trailing_metadata_size(), 2);
  EXPECT_EQ(reply.trailing_metadata(0).key(), "idempotency-record");
  EXPECT_EQ(reply.trailing_metadata(1).key(), "grpc-retry-pushback-ms");
  EXPECT_EQ(reply.trailing_metadata(1).value(), "200");
}

TEST(RejectionTest, ALongPauseIsForTheApplicationToWaitFor) {
  v1::ReserveResponse verdict;
  verdict.mutable_in_flight()->mutable_retry_after()->set_seconds(60);
  const absl::Status rejection = RejectionFor(verdict);
  EXPECT_EQ(DetailsOf(rejection).retry_delay, absl::Seconds(60));
  EXPECT_EQ(RejectionReply(rejection, "").trailing_metadata(0).value(), "1000");
}

TEST(RejectionTest, AnUnknownOutcomeHasItsCauseTimeAndRemedy) {
  v1::ReserveResponse verdict;
  v1::OutcomeUnknown& unknown = *verdict.mutable_outcome_unknown();
  unknown.set_attempt(2);
  unknown.set_cause(v1::OutcomeUnknown::CAUSE_RELEASED);
  unknown.set_reason("the handler answered UNAVAILABLE");
  unknown.mutable_since()->set_seconds(1);
  const absl::Status answered = RejectionFor(verdict);
  EXPECT_EQ(answered.code(), absl::StatusCode::kFailedPrecondition);
  for (const char* part : {"attempt 2", "1970-01-01T00:00:01", "the handler answered UNAVAILABLE",
                           "determine what it did"}) {
    EXPECT_THAT(std::string(answered.message()), testing::HasSubstr(part));
  }
  auto metadata = DetailsOf(answered).metadata;
  EXPECT_EQ(metadata["cause"], "RELEASED");
  EXPECT_EQ(metadata["reason"], "the handler answered UNAVAILABLE");
  EXPECT_EQ(metadata["attempt"], "2");
  EXPECT_THAT(metadata["since"], testing::StartsWith("1970-01-01T00:00:01"));
  EXPECT_EQ(RejectionReply(answered, "").trailing_metadata(0).value(), "-1");

  unknown.clear_reason();
  unknown.set_cause(v1::OutcomeUnknown::CAUSE_LEASE_EXPIRED);
  const absl::Status lost = RejectionFor(verdict);
  EXPECT_THAT(std::string(lost.message()), testing::HasSubstr("its lease expired"));
  EXPECT_EQ(DetailsOf(lost).metadata["cause"], "LEASE_EXPIRED");
}

class GuardOptionsTest : public testing::Test {
 protected:
  GuardOptionsTest() { options_.name_space = "payments"; }
  void ExpectRefused(const std::string& option) {
    const absl::Status status = ValidateGuardOptions(options_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(status.message()).find(option), std::string::npos) << status;
  }
  GuardOptions options_;
};

TEST_F(GuardOptionsTest, DefaultsWork) { EXPECT_TRUE(ValidateGuardOptions(options_).ok()); }
TEST_F(GuardOptionsTest, NamespaceIsRequired) {
  options_.name_space = "";
  ExpectRefused("name_space");
}
TEST_F(GuardOptionsTest, AShortSecretIsRefused) {
  options_.downstream_secret = std::string(15, 'x');
  ExpectRefused("downstream_secret");
  options_.downstream_secret = std::string(16, 'x');
  EXPECT_TRUE(ValidateGuardOptions(options_).ok());
}
TEST_F(GuardOptionsTest, TimesAreFinite) {
  const GuardOptions valid = options_;
  for (const absl::Duration wrong : {absl::ZeroDuration(), absl::InfiniteDuration()}) {
    options_ = valid;
    options_.verdict_timeout = wrong;
    ExpectRefused("verdict_timeout must be over 0 and finite");
    options_ = valid;
    options_.recording_timeout = wrong;
    ExpectRefused("recording_timeout must be over 0 and finite");
  }
  options_ = valid;
  options_.closing_timeout = absl::ZeroDuration();
  EXPECT_TRUE(ValidateGuardOptions(options_).ok());
  for (const absl::Duration wrong : {-absl::Seconds(1), absl::InfiniteDuration()}) {
    options_.closing_timeout = wrong;
    ExpectRefused("closing_timeout must be 0 or more, and finite");
  }
}
TEST_F(GuardOptionsTest, RetentionIsNotUnderTheLease) {
  options_.methods["/a/B"].MutableReplacementPolicy().retention = absl::Seconds(2);
  ExpectRefused("methods[/a/B].policy retention");
}
TEST_F(GuardOptionsTest, FingerprintsNeedAnAlgorithm) {
  options_.fingerprint_algorithms = {};
  ExpectRefused("fingerprint_algorithms");
}
TEST_F(GuardOptionsTest, LibraryCodesCannotBeRecorded) {
  options_.methods["/a/B"].MutableReplacementPolicy().recorded.insert(grpc::StatusCode::UNKNOWN);
  ExpectRefused("methods[/a/B].policy recorded");
}

TEST_F(GuardOptionsTest, ReplayCacheIsOffOrOfSomeUse) {
  options_.replay_cache.capacity_bytes = 0;
  EXPECT_TRUE(ValidateGuardOptions(options_).ok());
  options_.replay_cache.capacity_bytes = 1024 * 1024;
  EXPECT_TRUE(ValidateGuardOptions(options_).ok());
  options_.replay_cache.capacity_bytes = 64;
  ExpectRefused("replay_cache.capacity_bytes");
}
TEST_F(GuardOptionsTest, ChangesOfTheStoreTakeEffectInTime) {
  for (const absl::Duration max_age :
       {absl::ZeroDuration(), -absl::Seconds(1), absl::Minutes(11), absl::InfiniteDuration()}) {
    options_.replay_cache.max_age = max_age;
    ExpectRefused("replay_cache.max_age");
  }
}

TEST_F(GuardOptionsTest, MaxLeaseIsFromTheLeaseToADay) {
  MethodPolicy& policy = options_.methods["/a/B"].MutableReplacementPolicy();
  policy.max_lease = policy.lease;
  EXPECT_TRUE(ValidateGuardOptions(options_).ok());
  policy.max_lease = policy.lease - absl::Milliseconds(1);
  ExpectRefused("methods[/a/B].policy max_lease");
  policy.max_lease = limits::kMaxMaxLease + absl::Milliseconds(1);
  ExpectRefused("methods[/a/B].policy max_lease");
}
TEST_F(GuardOptionsTest, ReleasedCodesAreTheHandlersOwnAndNotRecorded) {
  using grpc::StatusCode;
  options_.methods["/a/B"].MutableReplacementPolicy().released = {StatusCode::RESOURCE_EXHAUSTED,
                                                                  StatusCode::ABORTED};
  EXPECT_TRUE(ValidateGuardOptions(options_).ok());
  for (const StatusCode code :
       {StatusCode::OK, StatusCode::CANCELLED, StatusCode::UNKNOWN, StatusCode::DEADLINE_EXCEEDED,
        StatusCode::UNIMPLEMENTED, StatusCode::INTERNAL, StatusCode::UNAVAILABLE,
        StatusCode::NOT_FOUND}) {
    options_.methods["/a/B"].MutableReplacementPolicy().released = {code};
    ExpectRefused("released");
  }
}
TEST_F(GuardOptionsTest, EachKindOfWorkNeedsAThread) {
  const std::map<std::string, int GuardThreads::*> kinds = {
      {"threads.handlers", &GuardThreads::handlers}, {"threads.replies", &GuardThreads::replies},
      {"threads.ledger", &GuardThreads::ledger},     {"threads.recovery", &GuardThreads::recovery},
      {"threads.loaders", &GuardThreads::loaders},
  };
  for (const auto& [name, count] : kinds) {
    options_.threads.*count = 0;
    ExpectRefused(name);
    options_.threads.*count = GuardThreads::kMax + 1;
    ExpectRefused(name);
    options_.threads.*count = 1;
    EXPECT_TRUE(ValidateGuardOptions(options_).ok());
  }
}
TEST_F(GuardOptionsTest, BackgroundRecoveryNeedsRoom) {
  options_.max_background_recoveries = 0;
  EXPECT_TRUE(ValidateGuardOptions(options_).ok());
  options_.background_recovery = true;
  ExpectRefused("max_background_recoveries");
}

TEST_F(GuardOptionsTest, ACombinedScopeNamesACaller) {
  options_.scope = CombinedScope({SharedScope("a"), CombinedScope({SharedScope("b")})});
  EXPECT_TRUE(ValidateGuardOptions(options_).ok());
  options_.scope = CombinedScope({});
  ExpectRefused("scope must not be a CombinedScope without parts");
  for (const ScopeFunction& empty : {ScopeFunction(), CombinedScope({ScopeFunction()})}) {
    options_.scope = CombinedScope({SharedScope("a"), empty});
    ExpectRefused("scope must not be a CombinedScope with an empty part");
  }
}

class ScopeTest : public testing::Test {
 protected:
  grpc::ServerContext context_;
  grpc::testing::ServerContextTestSpouse spouse_{&context_};
};

TEST_F(ScopeTest, MetadataMustBeThereOnce) {
  const ScopeFunction scope = MetadataScope("X-Tenant");
  EXPECT_EQ(scope(context_).status().code(), absl::StatusCode::kUnauthenticated);
  spouse_.AddClientMetadata("x-tenant", "a");
  EXPECT_EQ(*scope(context_), "a");
  spouse_.AddClientMetadata("x-tenant", "b");
  EXPECT_EQ(scope(context_).status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(ScopeTest, AuthorizationIsHashed) {
  const ScopeFunction scope = AuthorizationScope();
  EXPECT_FALSE(scope(context_).ok());
  spouse_.AddClientMetadata("authorization", "Bearer abc");
  // printf 'Bearer abc' | sha256sum
  EXPECT_EQ(*scope(context_),
            "authorization:c355dce96c1612880d11940ffdd9014d386c253e0c3652a6cd06a7226f7bd2b6");
}

TEST_F(ScopeTest, SharedIsShared) { EXPECT_EQ(*SharedScope("all")(context_), "all"); }

}  // namespace
}  // namespace idempotency::internal
