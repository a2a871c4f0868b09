#include "interceptors/server/request/identity_scope.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

TEST(IdentityScopeTest, IsTheSetOfNames) {
  EXPECT_EQ(IdentityScope({"spiffe://a"}), "spiffe://a");
  EXPECT_EQ(IdentityScope({"b", "a"}), IdentityScope({"a", "b"}));
  EXPECT_NE(IdentityScope({"a,b"}), IdentityScope({"a", "b"}));
  EXPECT_NE(IdentityScope({"a\\", "b"}), IdentityScope({"a,b"}));
}

// Records are found by this text: it stays the same.
TEST(IdentityScopeTest, EscapesCommasAndBackslashes) {
  EXPECT_EQ(IdentityScope({"b", "a"}), "a,b");
  EXPECT_EQ(IdentityScope({"a,b"}), "a\\,b");
  EXPECT_EQ(IdentityScope({"a\\b"}), "a\\\\b");
  EXPECT_EQ(IdentityScope({"a\\", "b"}), "a\\\\,b");
}

TEST(JoinedScopeTest, NoTwoListsHaveOne) {
  EXPECT_EQ(JoinedScope({"spiffe://a", "alice"}), "spiffe://a,alice");
  EXPECT_NE(JoinedScope({"a", "b"}), JoinedScope({"b", "a"}));
  EXPECT_NE(JoinedScope({"a,b", "c"}), JoinedScope({"a", "b,c"}));
  EXPECT_NE(JoinedScope({"a\\", "b"}), JoinedScope({"a\\,b"}));
  EXPECT_NE(JoinedScope({"a", ""}), JoinedScope({"a"}));
  const std::string longest(limits::kMaxScopeBytes, 'a');
  EXPECT_NE(JoinedScope({longest, "b"}), JoinedScope({longest, "c"}));
  EXPECT_EQ(JoinedScope({longest, "b"}).size(), 7u + 64u);
}

TEST(IdentityScopeTest, OfALongIdentityIsItsDigest) {
  const std::string longest(limits::kMaxScopeBytes, 'a');
  EXPECT_EQ(IdentityScope({longest}), longest);
  const std::string scope = IdentityScope({longest + "a"});
  EXPECT_EQ(scope.size(), 7u + 64u);
  EXPECT_EQ(scope.substr(0, 7), "sha256:");
  EXPECT_NE(scope, IdentityScope({longest + "b"}));
}

// A certificate may have any URI as its name.
TEST(IdentityScopeTest, OfANameLikeADigestIsNotThatOfTheDigestedIdentity) {
  const std::string digest = IdentityScope({std::string(limits::kMaxScopeBytes + 1, 'a')});
  EXPECT_NE(IdentityScope({digest}), digest);
  EXPECT_NE(IdentityScope({digest}), IdentityScope({absl::StrCat(digest, "0")}));
}

}  // namespace
}  // namespace idempotency::internal
