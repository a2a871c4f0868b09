#include "client/retries/outcome_rule.h"

#include <gtest/gtest.h>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"

namespace idempotency::internal {
namespace {

using grpc::StatusCode;

const Trailers kNoTrailers;
const Trailers kRecorded{{"idempotency-record", "r"}, {"idempotency-expires", "t"}};
const Trailers kReplayed{{"idempotency-record", "r"}, {"idempotency-replayed", "true"}};
// The handler ran, and its status is not recorded.
const Trailers kNotRecorded{{"idempotency-record", "r"}};

grpc::Status Bare(StatusCode code) { return {code, "failed"}; }

TEST(OutcomeRuleTest, OkIsTheOutcome) { EXPECT_TRUE(IsOutcome(grpc::Status::OK, kNoTrailers)); }

// gRPC makes these of an OK whose reply it cannot decode, with the trailers of that OK.
TEST(OutcomeRuleTest, ACodeOfGrpcItselfIsNoReplay) {
  EXPECT_TRUE(IsReplayed(Bare(StatusCode::FAILED_PRECONDITION), kRecorded));
  EXPECT_FALSE(IsReplayed(Bare(StatusCode::FAILED_PRECONDITION), kNotRecorded));
  for (const StatusCode code : {StatusCode::INTERNAL, StatusCode::UNIMPLEMENTED}) {
    EXPECT_FALSE(IsReplayed(Bare(code), kRecorded)) << code;
  }
}

TEST(OutcomeRuleTest, AFailureWithoutAReasonIsTheOutcomeOnceItIsRecorded) {
  for (const StatusCode code :
       {StatusCode::INVALID_ARGUMENT, StatusCode::NOT_FOUND, StatusCode::PERMISSION_DENIED,
        StatusCode::FAILED_PRECONDITION, StatusCode::UNAUTHENTICATED,
        StatusCode::RESOURCE_EXHAUSTED, StatusCode::ABORTED}) {
    EXPECT_TRUE(IsOutcome(Bare(code), kRecorded)) << code;
    EXPECT_TRUE(IsOutcome(Bare(code), kReplayed)) << code;
    EXPECT_FALSE(IsOutcome(Bare(code), kNotRecorded)) << code;
    EXPECT_FALSE(IsOutcome(Bare(code), kNoTrailers)) << code;
  }
}

TEST(OutcomeRuleTest, AReplyOverTheReceiveLimitIsNot) {
  const grpc::Status too_large(StatusCode::RESOURCE_EXHAUSTED,
                               "Received message larger than max (5000000 vs. 4194304)");
  EXPECT_FALSE(IsOutcome(too_large, kRecorded));
  EXPECT_FALSE(IsOutcome(too_large, kReplayed));
}

// Neither is a refusal of the key or the request: an earlier run may have sent them under other
// rules.
TEST(OutcomeRuleTest, NoReasonIsTheOutcome) {
  for (const Reason reason : AllReasons()) {
    const grpc::Status status = ToGrpcStatus(MakeError(reason, "refused"));
    EXPECT_FALSE(IsOutcome(status, kNoTrailers)) << ReasonName(reason);
    EXPECT_FALSE(IsOutcome(status, kRecorded)) << ReasonName(reason);
  }
}

// A stream over its limit: the guard recorded it, and the reply is gone.
TEST(OutcomeRuleTest, AReasonCountsForMoreThanTheRecord) {
  const grpc::Status lost = ToGrpcStatus(MakeError(Reason::kReplyNotKept, "not kept"));
  EXPECT_FALSE(IsOutcome(lost, kRecorded));
  const grpc::Status unknown = ToGrpcStatus(MakeError(Reason::kOutcomeUnknown, "unknown"));
  EXPECT_FALSE(IsOutcome(unknown, kReplayed));
}

}  // namespace
}  // namespace idempotency::internal
