#include "server/rpc/answers_by_host.h"

#include <gtest/gtest.h>

#include <memory>

namespace idempotency::internal {
namespace {

TEST(AnswersByHostTest, SessionsOfAHostHaveOneSum) {
  AnswersByHost hosts;
  const std::shared_ptr<HostAnswers> one = hosts.Of("one");
  EXPECT_EQ(hosts.Of("one"), one);
  EXPECT_NE(hosts.Of("other"), one);
  EXPECT_EQ(hosts.Of(""), nullptr);
}

// Or every address that ever had a session would take memory.
TEST(AnswersByHostTest, NothingIsKeptOfAHostWithoutASession) {
  AnswersByHost hosts;
  std::shared_ptr<HostAnswers> first = hosts.Of("one");
  const std::shared_ptr<HostAnswers> second = hosts.Of("one");
  hosts.Of("other");
  EXPECT_EQ(hosts.hosts(), 1u);
  first.reset();
  EXPECT_EQ(hosts.hosts(), 1u);
  EXPECT_EQ(hosts.Of("one"), second);
}

}  // namespace
}  // namespace idempotency::internal
