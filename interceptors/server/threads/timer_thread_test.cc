#include "interceptors/server/threads/timer_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "core/testing/watched_clock.h"

namespace idempotency::internal {
namespace {

constexpr auto kLong = std::chrono::seconds(10);

TEST(TimerThreadTest, RunsTasksInTheOrderOfTheirTimes) {
  std::vector<int> order;
  std::promise<void> done;
  TimerThread timer;
  const auto now = timer.Now();
  timer.RunAt(now + std::chrono::milliseconds(20), [&] {
    order.push_back(3);
    done.set_value();
  });
  timer.RunAt(now + std::chrono::milliseconds(10), [&] { order.push_back(2); });
  timer.RunAt(now - kLong, [&] { order.push_back(1); });
  ASSERT_EQ(done.get_future().wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_GE(timer.Now() - now, std::chrono::milliseconds(20));
}

TEST(TimerThreadTest, CancelledTaskNeverRuns) {
  std::promise<void> done;
  bool ran = false;
  TimerThread timer;
  const auto now = timer.Now();
  const auto id = timer.RunAt(now + std::chrono::milliseconds(5), [&] { ran = true; });
  timer.RunAt(now + std::chrono::milliseconds(10), [&] { done.set_value(); });
  timer.Cancel(id);
  timer.Cancel(id);
  timer.Cancel(0);
  ASSERT_EQ(done.get_future().wait_for(kLong), std::future_status::ready);
  EXPECT_FALSE(ran);
}

TEST(TimerThreadTest, TasksMayScheduleAndCancel) {
  std::promise<void> done;
  TimerThread timer;
  timer.RunAt(timer.Now(), [&] {
    timer.Cancel(timer.RunAt(timer.Now(), [] { ADD_FAILURE(); }));
    timer.RunAt(timer.Now(), [&] { done.set_value(); });
  });
  EXPECT_EQ(done.get_future().wait_for(kLong), std::future_status::ready);
}

// So many that their places in the order are given up several times.
TEST(TimerThreadTest, TheTasksThatAreLeftAfterManyWereCancelledRunInTheirOrder) {
  constexpr int kTasks = 1000;
  std::vector<int> order;
  std::promise<void> done;
  TimerThread timer;
  const auto now = timer.Now();
  const auto when = [now](int i) {
    return now + std::chrono::milliseconds(50) + std::chrono::microseconds(i);
  };
  std::vector<Scheduler::TaskId> ids(kTasks);
  std::vector<int> left;
  // The latest are added first.
  for (int i = kTasks - 1; i >= 0; --i) {
    ids[i] = timer.RunAt(when(i), [&order, i] { order.push_back(i); });
  }
  for (int i = 0; i < kTasks; ++i) {
    if (i % 100 == 0) {
      left.push_back(i);
    } else {
      timer.Cancel(ids[i]);
    }
  }
  timer.RunAt(when(kTasks), [&done] { done.set_value(); });
  ASSERT_EQ(done.get_future().wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(order, left);
}

// Almost every task is a deadline that is cancelled: each wake-up would cost its call two switches
// of threads.
TEST(TimerThreadTest, CancelledDeadlinesDoNotWakeIt) {
  std::atomic<int> looks{0};
  std::atomic<bool> counts{false};
  const std::thread::id caller = std::this_thread::get_id();
  const WatchedClock clock(Clock::System(), [&] {
    if (counts && std::this_thread::get_id() != caller) ++looks;
  });
  TimerThread timer(clock);
  counts = true;
  constexpr int kDeadlines = 200;
  for (int i = 0; i < kDeadlines; ++i) {
    timer.Cancel(timer.RunAt(timer.Now() + std::chrono::hours(1), [] { ADD_FAILURE(); }));
  }
  std::promise<void> ran;
  timer.RunAt(timer.Now(), [&ran] { ran.set_value(); });
  EXPECT_EQ(ran.get_future().wait_for(kLong), std::future_status::ready);
  EXPECT_LT(looks, kDeadlines / 10);
}

TEST(TimerThreadTest, StopRunsTasksThatCallersWaitFor) {
  TimerThread timer;
  int ran = 0;
  timer.RunAtOrWhenStopped(timer.Now() + std::chrono::hours(1), [&] {
    ++ran;
    EXPECT_EQ(timer.RunAt(timer.Now(), [] { ADD_FAILURE(); }), 0u);
  });
  timer.Cancel(
      timer.RunAtOrWhenStopped(timer.Now() + std::chrono::hours(1), [] { ADD_FAILURE(); }));
  timer.Stop();
  EXPECT_EQ(ran, 1);
  timer.Stop();
  EXPECT_EQ(ran, 1);
}

TEST(TimerThreadTest, StopDropsWhatIsLeft) {
  TimerThread timer;
  auto held = std::make_shared<int>(1);
  timer.RunAt(timer.Now() + std::chrono::hours(1), [held] { ADD_FAILURE(); });
  timer.Stop();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(timer.RunAt(timer.Now(), [] { ADD_FAILURE(); }), 0u);
  timer.Stop();
}

}  // namespace
}  // namespace idempotency::internal
