#include "client/retries/token_bucket.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "core/testing/manual_clock.h"

namespace idempotency::internal {
namespace {

;

class TokenBucketTest : public ::testing::Test {
 protected:
  // The number of retries that are available now.
  static int Drain(TokenBucket& bucket) {
    int taken = 0;
    while (bucket.TakeRetry()) ++taken;
    return taken;
  }

  ManualClock clock_;
  RetryBudgetOptions options_;
};

TEST_F(TokenBucketTest, StartsFullAndEnds) {
  TokenBucket bucket(options_, clock_);
  EXPECT_EQ(Drain(bucket), 100);
  EXPECT_FALSE(bucket.TakeRetry());
}

TEST_F(TokenBucketTest, FiveCallsPayForOneRetry) {
  TokenBucket bucket(options_, clock_);
  Drain(bucket);
  for (int i = 0; i < 4; ++i) bucket.AddCall();
  EXPECT_FALSE(bucket.TakeRetry());
  for (int i = 0; i < 2; ++i) bucket.AddCall();
  EXPECT_EQ(Drain(bucket), 1);
}

TEST_F(TokenBucketTest, TimePaysToo) {
  TokenBucket bucket(options_, clock_);
  Drain(bucket);
  clock_.Advance(absl::Milliseconds(50));
  EXPECT_FALSE(bucket.TakeRetry());
  clock_.Advance(absl::Milliseconds(1960));
  EXPECT_EQ(Drain(bucket), 20);
}

TEST_F(TokenBucketTest, HoldsNoMoreThanItsMost) {
  TokenBucket bucket(options_, clock_);
  for (int i = 0; i < 10'000; ++i) bucket.AddCall();
  clock_.Advance(absl::Hours(24));
  EXPECT_EQ(Drain(bucket), 100);
}

TEST_F(TokenBucketTest, NothingAndLessAreAllowed) {
  options_.retries_per_call = -1;
  options_.retries_per_second = -1;
  options_.max_tokens = -1;
  TokenBucket bucket(options_, clock_);
  bucket.AddCall();
  clock_.Advance(absl::Hours(1));
  EXPECT_FALSE(bucket.TakeRetry());
}

TEST_F(TokenBucketTest, NeitherCallsNorTimeTakeRetriesAway) {
  options_.retries_per_call = -1;
  options_.retries_per_second = 0;
  options_.max_tokens = 5;
  TokenBucket by_calls(options_, clock_);
  for (int i = 0; i < 3; ++i) by_calls.AddCall();
  EXPECT_EQ(Drain(by_calls), 5);
  options_.retries_per_call = 0;
  options_.retries_per_second = -1;
  TokenBucket by_time(options_, clock_);
  clock_.Advance(absl::Seconds(3));
  EXPECT_EQ(Drain(by_time), 5);
}

TEST_F(TokenBucketTest, ManyThreadsTakeNoMoreThanThereIs) {
  options_.max_tokens = 1000;
  TokenBucket bucket(options_, clock_);
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      pthread_setname_np(pthread_self(), "retrying");
      for (int j = 0; j < 1000; ++j) {
        if (bucket.TakeRetry()) ++taken;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, 1000);
}

TEST(RetryBudgetTest, EachServiceHasOne) {
  RetryBudget& payments = RetryBudget::ForService("payments.v1.Payments");
  EXPECT_EQ(&payments, &RetryBudget::ForService(std::string("payments.v1.Payments")));
  EXPECT_NE(&payments, &RetryBudget::ForService("orders.v1.Orders"));
  EXPECT_NE(&payments, &RetryBudget::ForService(""));
  while (payments.TakeRetry()) {
  }
  EXPECT_TRUE(RetryBudget::ForService("orders.v1.Orders").TakeRetry())
      << "the retries of one service are not those of another";
}

// Names may come from a configuration, or from callers.
TEST(RetryBudgetTest, MoreServicesThanItKeepsShareOne) {
  for (std::size_t i = 0; i < RetryBudget::kMaxServices; ++i) {
    RetryBudget::ForService("service " + std::to_string(i));
  }
  EXPECT_EQ(&RetryBudget::ForService("one more"), &RetryBudget::ForService(""));
  EXPECT_EQ(&RetryBudget::ForService("and another"), &RetryBudget::ForService(""));
  EXPECT_NE(&RetryBudget::ForService("service 0"), &RetryBudget::ForService(""));
}

}  // namespace
}  // namespace idempotency::internal
