#include "interceptors/ext_proc/policy/path_pattern.h"

#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace idempotency::internal {
namespace {

TEST(MethodPatternTest, AStarStaysBetweenSlashes) {
  const MethodPattern pattern = MethodPattern::Parse("payments.v1.*/Create*").value();
  EXPECT_TRUE(pattern.Matches("/payments.v1.Invoices/CreateInvoice"));
  EXPECT_TRUE(pattern.Matches("/payments.v1./Create"));
  EXPECT_FALSE(pattern.Matches("/payments.v1.Invoices/GetInvoice"));
  EXPECT_FALSE(pattern.Matches("/payments.v1.a/b/CreateInvoice"));
  EXPECT_FALSE(pattern.Matches("/payments.v1.a/Create/b"));
  EXPECT_FALSE(pattern.Matches("payments.v1.Invoices/CreateInvoice"));
  EXPECT_FALSE(pattern.Matches("//payments.v1.Invoices/CreateInvoice"));
  EXPECT_FALSE(pattern.Matches(""));
  EXPECT_FALSE(pattern.Matches("/"));
  EXPECT_TRUE(MethodPattern::Parse("*/*").value().Matches("/a.B/C"));
}

TEST(MethodPatternTest, HostilePathsTakeNoTime) {
  const MethodPattern pattern = MethodPattern::Parse("*a*a*a*a*a*a*b/*x*x*x*y").value();
  EXPECT_FALSE(pattern.Matches("/" + std::string(8000, 'a') + "/" + std::string(8000, 'x')));
}

TEST(MethodPatternTest, OthersAreRefused) {
  for (const char* bad : {"", "a", "/a/b", "a/b/c", "a/", "/b", "a b/c", "a/b?c"}) {
    EXPECT_FALSE(MethodPattern::Parse(bad).ok()) << bad;
  }
}

TEST(MethodPatternTest, OneCoversAnotherIfItMatchesAllOfIt) {
  const auto covers = [](const char* one, const char* other) {
    return MethodPattern::Parse(one).value().Covers(MethodPattern::Parse(other).value());
  };
  EXPECT_TRUE(covers("*/*", "a.B/C"));
  EXPECT_TRUE(covers("a.*/C*", "a.B*/Cd*"));
  EXPECT_TRUE(covers("a*/**", "a/*"));
  EXPECT_FALSE(covers("a.B/C", "a.B/*"));
  EXPECT_FALSE(covers("a.B/*x", "a.B/x*"));
}

TEST(PathPatternTest, ASegmentInBracesIsAnyOne) {
  const PathPattern pattern = PathPattern::Parse("/v1/payments/{id}/refunds").value();
  EXPECT_TRUE(pattern.Matches("/v1/payments/42/refunds"));
  EXPECT_TRUE(pattern.Matches("/V1/Payments/42/refunds/"));
  EXPECT_FALSE(pattern.Matches("/v1/payments//refunds"));
  EXPECT_FALSE(pattern.Matches("/v1/payments/4/2/refunds"));
  EXPECT_FALSE(pattern.Matches("/v1/payments/42"));
  EXPECT_FALSE(pattern.Matches("/v1/payments/42/refunds/more"));
  EXPECT_FALSE(pattern.Matches("/v1/payments/42/refunds//"));
  EXPECT_FALSE(pattern.Matches(""));
}

// Most services decode it before they route.
TEST(PathPatternTest, AnEscapedCharacterIsTheSame) {
  const PathPattern pattern = PathPattern::Parse("/v1/payments:refund").value();
  EXPECT_TRUE(pattern.Matches("/v1/payments:refund"));
  EXPECT_TRUE(pattern.Matches("/v1/payments%3Arefund"));
  EXPECT_TRUE(pattern.Matches("/v1/payments%3arefund"));
  EXPECT_TRUE(pattern.Matches("/v%31/%50ayments:refund"));
  EXPECT_FALSE(pattern.Matches("/v1/payments%3"));
  EXPECT_FALSE(pattern.Matches("/v1/payments%3grefund"));
  EXPECT_FALSE(pattern.Matches("/v1/payments%253Arefund"));
  EXPECT_FALSE(pattern.Matches("/v1%2Fpayments:refund"));
  EXPECT_TRUE(PathPattern::Parse("/a%20b").value().Matches("/a%20b"));
}

TEST(PathPatternTest, OneCoversAnotherIfItMatchesAllOfIt) {
  const auto covers = [](const char* one, const char* other) {
    return PathPattern::Parse(one).value().Covers(PathPattern::Parse(other).value());
  };
  EXPECT_TRUE(covers("/v1/{a}", "/V1/{b}"));
  EXPECT_TRUE(covers("/v1/{a}", "/v1/payments"));
  EXPECT_FALSE(covers("/v1/payments", "/v1/{a}"));
  EXPECT_FALSE(covers("/v1/{a}", "/v1/{a}/refunds"));
}

TEST(PathPatternTest, WhatTwoHaveInCommon) {
  const auto common = [](const char* one, const char* other) {
    return PathPattern::Parse(one).value().CommonWith(PathPattern::Parse(other).value());
  };
  EXPECT_EQ(common("/v1/{a}/{b}", "/v1/Payments/{c}"), "/v1/payments/{}");
  EXPECT_EQ(common("/{v}/payments", "/v1/{a}"), "/v1/payments");
  EXPECT_EQ(common("/v1/payments", "/v1/orders"), std::nullopt);
  EXPECT_EQ(common("/v1/{a}", "/v1/{a}/{b}"), std::nullopt);
}

TEST(PathPatternTest, OthersAreRefused) {
  for (const char* bad : {"", "a", "/a//b", "/a/", "/{}", "/a{b}", "/a?b", "/a b"}) {
    EXPECT_FALSE(PathPattern::Parse(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace idempotency::internal
