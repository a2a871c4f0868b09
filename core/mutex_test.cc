#include "core/mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace idempotency::internal {
namespace {

using std::chrono::steady_clock;

struct Counter {
  Mutex mutex;
  CondVar changed;
  int value ABSL_GUARDED_BY(mutex) = 0;
};

steady_clock::time_point Soon() { return steady_clock::now() + std::chrono::seconds(30); }

TEST(MutexTest, OneThreadAtATime) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 10'000;
  Counter counter;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const MutexLock lock(counter.mutex);
        ++counter.value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const MutexLock lock(counter.mutex);
  EXPECT_EQ(counter.value, kThreads * kRounds);
}

TEST(CondVarTest, WakesTheOtherSide) {
  Counter counter;
  std::thread other([&] {
    MutexLock lock(counter.mutex);
    while (counter.value != 1) counter.changed.Wait(lock);
    counter.value = 2;
    counter.changed.NotifyAll();
  });
  bool answered = false;
  {
    MutexLock lock(counter.mutex);
    counter.value = 1;
    counter.changed.NotifyOne();
    const auto deadline = Soon();
    while (counter.value != 2 && counter.changed.WaitUntil(lock, deadline)) {
    }
    answered = counter.value == 2;
  }
  other.join();
  EXPECT_TRUE(answered);
}

TEST(CondVarTest, WaitUntilEndsWithTheDeadline) {
  Counter counter;
  MutexLock lock(counter.mutex);
  const auto deadline = steady_clock::now() + std::chrono::milliseconds(1);
  // Spurious wake-ups are allowed; an early end is not.
  while (counter.changed.WaitUntil(lock, deadline)) {
  }
  EXPECT_GE(steady_clock::now(), deadline);
}

TEST(MutexTest, LockAndUnlockByHand) {
  Counter counter;
  counter.mutex.Lock();
  ++counter.value;
  counter.mutex.Unlock();
  const MutexLock lock(counter.mutex);
  EXPECT_EQ(counter.value, 1);
}

}  // namespace
}  // namespace idempotency::internal
