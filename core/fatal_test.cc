#include "core/fatal.h"

#include "gtest/gtest.h"

namespace idempotency::internal {
namespace {

TEST(FatalDeathTest, TheReasonIsOnStderr) {
  EXPECT_DEATH(Fatal("no random numbers"), "grpc-idempotency: fatal: no random numbers");
}

TEST(FatalDeathTest, AConditionIsRequiredInEveryBuild) {
  Require(true, "not printed");
  EXPECT_DEATH(Require(false, "a call is outstanding"), "fatal: a call is outstanding");
}

}  // namespace
}  // namespace idempotency::internal
