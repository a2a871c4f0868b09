#include "interceptors/client/keyed_methods.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "till.pb.h"

namespace idempotency {
namespace {

KeyedMethods OfThisProgram() {
  // Keeps the linker from leaving the descriptors out.
  testdata::ChargeRequest::descriptor();
  return KeyedMethods(*google::protobuf::DescriptorPool::generated_pool());
}

TEST(KeyedMethodsTest, FollowsTheIdempotencyLevel) {
  KeyedMethods methods = OfThisProgram();
  // Twice: the second answer comes from memory.
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(methods.NeedsKey("/idempotency.testdata.Till/Charge"));
    EXPECT_FALSE(methods.NeedsKey("/idempotency.testdata.Till/Balance"));
    EXPECT_FALSE(methods.NeedsKey("/idempotency.testdata.Till/SetLimit"));
  }
}

TEST(KeyedMethodsTest, WhatIsNotKnownGetsAKey) {
  KeyedMethods methods = OfThisProgram();
  for (const char* method : {"/other.v1.Other/Do", "/idempotency.testdata.Till/Nothing", "", "/",
                             "idempotency.testdata.Till/Balance", "/a/b/c", "//"}) {
    EXPECT_TRUE(methods.NeedsKey(method)) << method;
  }
}

TEST(KeyedMethodsTest, RightAlsoWhenFullOfUnknownMethods) {
  KeyedMethods methods = OfThisProgram();
  for (int i = 0; i < 5000; ++i) EXPECT_TRUE(methods.NeedsKey(absl::StrCat("/unknown.S/M", i)));
  EXPECT_FALSE(methods.NeedsKey("/idempotency.testdata.Till/Balance"));
}

TEST(KeyedMethodsTest, AskedByManyThreads) {
  KeyedMethods methods = OfThisProgram();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        if (!methods.NeedsKey("/idempotency.testdata.Till/Charge")) ++wrong;
        if (methods.NeedsKey("/idempotency.testdata.Till/Balance")) ++wrong;
        if (!methods.NeedsKey(absl::StrCat("/unknown.S/M", i))) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace idempotency
