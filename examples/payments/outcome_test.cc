#include "examples/payments/outcome.h"

#include <gtest/gtest.h>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"

namespace payments {
namespace {

TEST(OutcomeTest, AReplyIsOneLine) {
  Outcome outcome;
  outcome.replayed = true;
  outcome.record_id = "0193";
  outcome.expires = "2026-01-02T03:04:05Z";
  EXPECT_EQ(ToLine(outcome, "charge_id=ch_1"),
            "OK charge_id=ch_1 replayed=true record=0193 expires=2026-01-02T03:04:05Z");
}

TEST(OutcomeTest, ARefusalNamesItsReasonAndLeavesTheReplyOut) {
  grpc::ClientContext context;
  const Outcome outcome =
      OutcomeOf(idempotency::ToGrpcStatus(idempotency::MakeError(
                    idempotency::Reason::kKeyReused, "the key belongs to another request")),
                context);
  EXPECT_EQ(ToLine(outcome, "charge_id="),
            "FAILED_PRECONDITION KEY_REUSED replayed=false"
            " message=\"the key belongs to another request\"");
}

TEST(OutcomeTest, TheHandlersOwnAnswerHasNoReason) {
  grpc::ClientContext context;
  const Outcome outcome = OutcomeOf({grpc::StatusCode::NOT_FOUND, "no such account"}, context);
  EXPECT_EQ(ToLine(outcome, ""), "NOT_FOUND replayed=false message=\"no such account\"");
}

TEST(OutcomeTest, EveryCodeHasAName) {
  EXPECT_EQ(CodeName(0), "OK");
  EXPECT_EQ(CodeName(16), "UNAUTHENTICATED");
  EXPECT_EQ(CodeName(17), "CODE_17");
  EXPECT_EQ(CodeName(-1), "CODE_-1");
}

}  // namespace
}  // namespace payments
