#include "client/retry_budget.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <thread>
#include <vector>

namespace idempotency {
namespace {

class StandingClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch(); }
  std::chrono::steady_clock::time_point Monotonic() const override { return now_; }
  void Advance(std::chrono::milliseconds by) { now_ += by; }

 private:
  std::chrono::steady_clock::time_point now_{std::chrono::hours(1000)};
};

class RetryBudgetTest : public ::testing::Test {
 protected:
  RetryBudgetTest() { options_.clock = &clock_; }
  // How many retries are to be had now.
  static int Drain(RetryBudget& budget) {
    int taken = 0;
    while (budget.TakeRetry()) ++taken;
    return taken;
  }

  StandingClock clock_;
  RetryBudgetOptions options_;
};

TEST_F(RetryBudgetTest, StartsFullAndEnds) {
  RetryBudget budget(options_);
  EXPECT_EQ(Drain(budget), 100);
  EXPECT_FALSE(budget.TakeRetry());
}

TEST_F(RetryBudgetTest, FiveCallsPayForOneRetry) {
  RetryBudget budget(options_);
  Drain(budget);
  for (int i = 0; i < 4; ++i) budget.AddCall();
  EXPECT_FALSE(budget.TakeRetry());
  for (int i = 0; i < 2; ++i) budget.AddCall();
  EXPECT_EQ(Drain(budget), 1);
}

TEST_F(RetryBudgetTest, TimePaysToo) {
  RetryBudget budget(options_);
  Drain(budget);
  clock_.Advance(std::chrono::milliseconds(50));
  EXPECT_FALSE(budget.TakeRetry());
  clock_.Advance(std::chrono::milliseconds(1960));
  EXPECT_EQ(Drain(budget), 20);
}

TEST_F(RetryBudgetTest, HoldsNoMoreThanItsMost) {
  RetryBudget budget(options_);
  for (int i = 0; i < 10'000; ++i) budget.AddCall();
  clock_.Advance(std::chrono::hours(24));
  EXPECT_EQ(Drain(budget), 100);
}

TEST_F(RetryBudgetTest, NothingAndLessAreAllowed) {
  options_.retries_per_call = -1;
  options_.retries_per_second = -1;
  options_.most = -1;
  RetryBudget budget(options_);
  budget.AddCall();
  clock_.Advance(std::chrono::hours(1));
  EXPECT_FALSE(budget.TakeRetry());
}

TEST_F(RetryBudgetTest, NeitherCallsNorTimeTakeRetriesAway) {
  options_.retries_per_call = -1;
  options_.retries_per_second = 0;
  options_.most = 5;
  RetryBudget by_calls(options_);
  for (int i = 0; i < 3; ++i) by_calls.AddCall();
  EXPECT_EQ(Drain(by_calls), 5);
  options_.retries_per_call = 0;
  options_.retries_per_second = -1;
  RetryBudget by_time(options_);
  clock_.Advance(std::chrono::seconds(3));
  EXPECT_EQ(Drain(by_time), 5);
}

TEST_F(RetryBudgetTest, ManyThreadsTakeNoMoreThanThereIs) {
  options_.most = 1000;
  RetryBudget budget(options_);
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      pthread_setname_np(pthread_self(), "retrying");
      for (int j = 0; j < 1000; ++j) {
        if (budget.TakeRetry()) ++taken;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, 1000);
}

TEST(ProcessRetryBudgetTest, IsOne) { EXPECT_EQ(&RetryBudget::Process(), &RetryBudget::Process()); }

}  // namespace
}  // namespace idempotency
