#include "grpc_idempotency/client/retry_rule.h"

#include <gtest/gtest.h>

#include <map>

#include "grpc_idempotency/grpc_status.h"

namespace idempotency::internal {
namespace {

using grpc::StatusCode;

// The promise to callers. A reason that is not in this list fails the test until it has a decision.
const std::map<Reason, bool>& Promised() {
  static const auto& promised = *new std::map<Reason, bool>{
      {Reason::kKeyMissing, false},        {Reason::kKeyInvalid, false},
      {Reason::kKeyReused, false},         {Reason::kKeyExpired, false},
      {Reason::kInFlight, true},           {Reason::kOutcomeUnknown, false},
      {Reason::kReservationLost, true},    {Reason::kOutcomeNotRecorded, true},
      {Reason::kReplyNotKept, false},      {Reason::kStoreUnavailable, true},
      {Reason::kQuotaExceeded, true},      {Reason::kOverloaded, true},
      {Reason::kRequestInvalid, false},    {Reason::kFingerprintUnknown, false},
      {Reason::kRecordNotFound, false},    {Reason::kRecordDamaged, false},
      {Reason::kRecordIdCollision, false}, {Reason::kDownstreamRefused, false},
      {Reason::kCredentialsInvalid, true}, {Reason::kAccessDenied, false},
      {Reason::kRecordChanged, false},     {Reason::kForceRequired, false},
  };
  return promised;
}

// The status that a guard returns.
grpc::Status Rejection(Reason reason) {
  const absl::StatusCode code =
      reason == Reason::kReservationLost ? absl::StatusCode::kAborted : CodeOf(reason);
  return ToGrpcStatus(MakeErrorWithCode(reason, code, "rejected"));
}

TEST(RetryRuleTest, EveryReasonIsDecided) {
  for (const Reason reason : AllReasons()) {
    const auto promised = Promised().find(reason);
    ASSERT_NE(promised, Promised().end()) << ReasonName(reason) << " is not decided";
    EXPECT_EQ(IsRetryable(reason), promised->second) << ReasonName(reason);
    EXPECT_EQ(IsRetryable(Rejection(reason), {}), promised->second) << ReasonName(reason);
  }
  EXPECT_EQ(AllReasons().size(), Promised().size());
}

// Of a newer version, if a caller ever receives it.
TEST(RetryRuleTest, AnUnknownReasonIsNotRetried) {
  EXPECT_FALSE(IsRetryable(static_cast<Reason>(10'000)));
}

TEST(RetryRuleTest, AReasonCountsForMoreThanItsCode) {
  // INTERNAL alone would be retried; naming a code does not make a reason retryable.
  EXPECT_FALSE(IsRetryable(Rejection(Reason::kRecordIdCollision), {StatusCode::INTERNAL}));
  EXPECT_FALSE(IsRetryable(Rejection(Reason::kKeyReused), {StatusCode::FAILED_PRECONDITION}));
}

TEST(RetryRuleTest, TheServicesAnswerAboutALostTokenIsFinal) {
  const absl::Status lost = MakeError(Reason::kReservationLost, "lost");
  EXPECT_FALSE(IsRetryable(ToGrpcStatus(lost), {}));
}

TEST(RetryRuleTest, WithoutAReasonTheCodeDecides) {
  const std::map<StatusCode, bool> by_itself = {
      {StatusCode::OK, false},
      {StatusCode::CANCELLED, true},
      {StatusCode::UNKNOWN, true},
      {StatusCode::INVALID_ARGUMENT, false},
      {StatusCode::DEADLINE_EXCEEDED, true},
      {StatusCode::NOT_FOUND, false},
      {StatusCode::ALREADY_EXISTS, false},
      {StatusCode::PERMISSION_DENIED, false},
      {StatusCode::RESOURCE_EXHAUSTED, false},
      {StatusCode::FAILED_PRECONDITION, false},
      {StatusCode::ABORTED, false},
      {StatusCode::OUT_OF_RANGE, false},
      {StatusCode::UNIMPLEMENTED, true},
      {StatusCode::INTERNAL, true},
      {StatusCode::UNAVAILABLE, true},
      {StatusCode::DATA_LOSS, false},
      {StatusCode::UNAUTHENTICATED, false},
  };
  for (const auto& [code, retried] : by_itself) {
    EXPECT_EQ(IsRetryable(grpc::Status(code, ""), {}), retried) << code;
    const bool answer = code == StatusCode::OK || code == StatusCode::FAILED_PRECONDITION;
    EXPECT_EQ(IsRetryable(grpc::Status(code, ""), {code}), !answer) << code << ", named";
  }
}

// Each further try gets the same reply, over the same limit.
TEST(RetryRuleTest, AReplyOverTheReceiveLimitIsNotRetried) {
  const grpc::Status over(StatusCode::RESOURCE_EXHAUSTED,
                          "Received message larger than max (5000000 vs. 4194304)");
  EXPECT_FALSE(IsRetryable(over, {StatusCode::RESOURCE_EXHAUSTED}));
  for (const char* const message : {"received initial metadata size exceeds limit",
                                    "received trailing metadata size exceeds limit (9000 vs. 8192)",
                                    "received metadata size exceeds soft limit (9000 vs. 8192)"}) {
    const grpc::Status over_metadata(StatusCode::RESOURCE_EXHAUSTED, message);
    EXPECT_FALSE(IsRetryable(over_metadata, {StatusCode::RESOURCE_EXHAUSTED})) << message;
  }
}

}  // namespace
}  // namespace idempotency::internal
