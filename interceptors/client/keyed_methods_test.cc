#include "interceptors/client/keyed_methods.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "till.pb.h"

namespace idempotency::internal {
namespace {

constexpr bool kUnary = true;

KeyedMethods OfThisProgram() {
  // Prevents the linker from dropping the descriptors.
  testdata::ChargeRequest::descriptor();
  return KeyedMethods(*google::protobuf::DescriptorPool::generated_pool());
}

TEST(KeyedMethodsTest, FollowsTheIdempotencyLevel) {
  KeyedMethods methods = OfThisProgram();
  // Twice: the second answer is cached.
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(methods.Of("/idempotency.testdata.Till/Charge", kUnary).needs_key);
    EXPECT_FALSE(methods.Of("/idempotency.testdata.Till/Balance", kUnary).needs_key);
    EXPECT_FALSE(methods.Of("/idempotency.testdata.Till/SetLimit", kUnary).needs_key);
  }
}

TEST(KeyedMethodsTest, FollowsThePolicyOption) {
  KeyedMethods methods = OfThisProgram();
  EXPECT_TRUE(methods.Of("/idempotency.testdata.Till/SetLimitOnce", kUnary).needs_key);
  EXPECT_TRUE(methods.Of("/idempotency.testdata.Till/Tip", kUnary).needs_key);
  EXPECT_FALSE(methods.Of("/idempotency.testdata.Till/Log", kUnary).needs_key);
}

TEST(KeyedMethodsTest, AKeyFieldIsLookedAtInEachRequest) {
  KeyedMethods methods = OfThisProgram();
  const KeyedMethods::Answer order = methods.Of("/idempotency.testdata.Till/Order", kUnary);
  EXPECT_TRUE(order.needs_key);
  ASSERT_NE(order.with_key_field, nullptr);
  EXPECT_EQ(order.with_key_field->name(), "Order");
  EXPECT_EQ(methods.Of("/idempotency.testdata.Till/Charge", kUnary).with_key_field, nullptr);
}

TEST(KeyedMethodsTest, StreamsGetAKeyWhereTheyAreCaptured) {
  KeyedMethods methods = OfThisProgram();
  EXPECT_TRUE(methods.Of("/idempotency.testdata.Till/Export", !kUnary).needs_key);
  EXPECT_FALSE(methods.Of("/idempotency.testdata.Till/Watch", !kUnary).needs_key);
  EXPECT_FALSE(methods.Of("/idempotency.testdata.Till/ChargeMany", !kUnary).needs_key);
  EXPECT_FALSE(methods.Of("/other.v1.Other/Watch", !kUnary).needs_key);
}

TEST(KeyedMethodsTest, AnUnknownMethodGetsAKey) {
  KeyedMethods methods = OfThisProgram();
  for (const char* method : {"/other.v1.Other/Do", "/idempotency.testdata.Till/Nothing", "", "/",
                             "idempotency.testdata.Till/Balance", "/a/b/c", "//"}) {
    EXPECT_TRUE(methods.Of(method, kUnary).needs_key) << method;
  }
}

// A generic stub may make a stream of any method.
TEST(KeyedMethodsTest, AnUnknownMethodGetsAKeyAlsoAfterAStreamOfItsName) {
  KeyedMethods methods = OfThisProgram();
  EXPECT_FALSE(methods.Of("/other.v1.Other/Do", !kUnary).needs_key);
  EXPECT_TRUE(methods.Of("/other.v1.Other/Do", kUnary).needs_key);
  EXPECT_FALSE(methods.Of("/other.v1.Other/Do", !kUnary).needs_key);
}

TEST(KeyedMethodsTest, RightAlsoWhenFullOfUnknownMethods) {
  KeyedMethods methods = OfThisProgram();
  for (int i = 0; i < 5000; ++i) {
    EXPECT_TRUE(methods.Of(absl::StrCat("/unknown.S/M", i), kUnary).needs_key);
  }
  EXPECT_FALSE(methods.Of("/idempotency.testdata.Till/Balance", kUnary).needs_key);
}

TEST(KeyedMethodsTest, UsedByManyThreads) {
  KeyedMethods methods = OfThisProgram();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        if (!methods.Of("/idempotency.testdata.Till/Charge", kUnary).needs_key) ++wrong;
        if (methods.Of("/idempotency.testdata.Till/Balance", kUnary).needs_key) ++wrong;
        if (!methods.Of(absl::StrCat("/unknown.S/M", i), kUnary).needs_key) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace idempotency::internal
