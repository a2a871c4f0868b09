#include "client/retries/outcome_rule.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

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

TEST(OutcomeRuleTest, OkIsTheOutcome) {
  EXPECT_TRUE(IsOutcome(grpc::Status::OK, kNoTrailers, 1));
  EXPECT_TRUE(IsOutcome(grpc::Status::OK, kNoTrailers, 2));
}

TEST(OutcomeRuleTest, AFailureWithoutAReasonIsTheOutcomeOnceItIsRecorded) {
  for (const StatusCode code :
       {StatusCode::INVALID_ARGUMENT, StatusCode::NOT_FOUND, StatusCode::PERMISSION_DENIED,
        StatusCode::FAILED_PRECONDITION, StatusCode::UNAUTHENTICATED,
        StatusCode::RESOURCE_EXHAUSTED, StatusCode::ABORTED}) {
    for (const int tries : {1, 2}) {
      EXPECT_TRUE(IsOutcome(Bare(code), kRecorded, tries)) << code;
      EXPECT_TRUE(IsOutcome(Bare(code), kReplayed, tries)) << code;
      EXPECT_FALSE(IsOutcome(Bare(code), kNotRecorded, tries)) << code;
      EXPECT_FALSE(IsOutcome(Bare(code), kNoTrailers, tries)) << code;
    }
  }
}

TEST(OutcomeRuleTest, AReplyOverTheReceiveLimitIsNot) {
  const grpc::Status too_large(StatusCode::RESOURCE_EXHAUSTED,
                               "Received message larger than max (5000000 vs. 4194304)");
  EXPECT_FALSE(IsOutcome(too_large, kRecorded, 1));
  EXPECT_FALSE(IsOutcome(too_large, kReplayed, 1));
}

TEST(OutcomeRuleTest, OnlyARefusalOfTheKeyOrTheRequestIsTheOutcomeOfAnOnlyTry) {
  const std::set<Reason> refusals = {Reason::kKeyInvalid, Reason::kRequestInvalid};
  for (const Reason reason : AllReasons()) {
    const grpc::Status status = ToGrpcStatus(MakeError(reason, "refused"));
    EXPECT_EQ(IsOutcome(status, kNoTrailers, 1), refusals.count(reason) > 0) << ReasonName(reason);
    EXPECT_FALSE(IsOutcome(status, kNoTrailers, 2)) << ReasonName(reason);
  }
}

// A stream over its limit: the guard recorded it, and the reply is gone.
TEST(OutcomeRuleTest, AReasonCountsForMoreThanTheRecord) {
  const grpc::Status lost = ToGrpcStatus(MakeError(Reason::kReplyNotKept, "not kept"));
  EXPECT_FALSE(IsOutcome(lost, kRecorded, 1));
  const grpc::Status unknown = ToGrpcStatus(MakeError(Reason::kOutcomeUnknown, "unknown"));
  EXPECT_FALSE(IsOutcome(unknown, kReplayed, 1));
}

}  // namespace
}  // namespace idempotency::internal
