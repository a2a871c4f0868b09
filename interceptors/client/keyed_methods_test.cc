#include "interceptors/client/keyed_methods.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "till.pb.h"

namespace idempotency {
namespace {

constexpr bool kUnary = true;

KeyedMethods OfThisProgram() {
  // Keeps the linker from leaving the descriptors out.
  testdata::ChargeRequest::descriptor();
  return KeyedMethods(*google::protobuf::DescriptorPool::generated_pool());
}

TEST(KeyedMethodsTest, FollowsTheIdempotencyLevel) {
  KeyedMethods methods = OfThisProgram();
  // Twice: the second answer comes from memory.
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(methods.NeedsKey("/idempotency.testdata.Till/Charge", kUnary));
    EXPECT_FALSE(methods.NeedsKey("/idempotency.testdata.Till/Balance", kUnary));
    EXPECT_FALSE(methods.NeedsKey("/idempotency.testdata.Till/SetLimit", kUnary));
  }
}

TEST(KeyedMethodsTest, FollowsThePolicyOption) {
  KeyedMethods methods = OfThisProgram();
  EXPECT_TRUE(methods.NeedsKey("/idempotency.testdata.Till/SetLimitOnce", kUnary));
  EXPECT_TRUE(methods.NeedsKey("/idempotency.testdata.Till/Tip", kUnary));
  EXPECT_FALSE(methods.NeedsKey("/idempotency.testdata.Till/Log", kUnary));
  // The caller's own, in the field.
  EXPECT_FALSE(methods.NeedsKey("/idempotency.testdata.Till/Order", kUnary));
}

TEST(KeyedMethodsTest, StreamsGetAKeyWhereTheyAreCaptured) {
  KeyedMethods methods = OfThisProgram();
  EXPECT_TRUE(methods.NeedsKey("/idempotency.testdata.Till/Export", !kUnary));
  EXPECT_FALSE(methods.NeedsKey("/idempotency.testdata.Till/Watch", !kUnary));
  EXPECT_FALSE(methods.NeedsKey("/idempotency.testdata.Till/ChargeMany", !kUnary));
  EXPECT_FALSE(methods.NeedsKey("/other.v1.Other/Watch", !kUnary));
}

TEST(KeyedMethodsTest, WhatIsNotKnownGetsAKey) {
  KeyedMethods methods = OfThisProgram();
  for (const char* method : {"/other.v1.Other/Do", "/idempotency.testdata.Till/Nothing", "", "/",
                             "idempotency.testdata.Till/Balance", "/a/b/c", "//"}) {
    EXPECT_TRUE(methods.NeedsKey(method, kUnary)) << method;
  }
}

TEST(KeyedMethodsTest, RightAlsoWhenFullOfUnknownMethods) {
  KeyedMethods methods = OfThisProgram();
  for (int i = 0; i < 5000; ++i) {
    EXPECT_TRUE(methods.NeedsKey(absl::StrCat("/unknown.S/M", i), kUnary));
  }
  EXPECT_FALSE(methods.NeedsKey("/idempotency.testdata.Till/Balance", kUnary));
}

TEST(KeyedMethodsTest, AskedByManyThreads) {
  KeyedMethods methods = OfThisProgram();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        if (!methods.NeedsKey("/idempotency.testdata.Till/Charge", kUnary)) ++wrong;
        if (methods.NeedsKey("/idempotency.testdata.Till/Balance", kUnary)) ++wrong;
        if (!methods.NeedsKey(absl::StrCat("/unknown.S/M", i), kUnary)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace idempotency
