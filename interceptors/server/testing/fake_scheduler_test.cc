#include "interceptors/server/testing/fake_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;

// As TimerThread: see TimerThreadTest.StopRunsTasksThatCallersWaitFor.
TEST(FakeSchedulerTest, StopRunsTasksThatCallersWaitForAndDropsTheOthers) {
  FakeScheduler scheduler;
  std::vector<std::string> ran;
  const auto task = [&ran](std::string name) {
    return [&ran, name = std::move(name)] { ran.push_back(name); };
  };
  const Scheduler::Time now = scheduler.Now();
  scheduler.RunAtOrWhenStopped(now + std::chrono::seconds(2), task("second"));
  scheduler.RunAtOrWhenStopped(now + std::chrono::seconds(1), task("first"));
  scheduler.RunAt(now + std::chrono::seconds(1), task("dropped"));
  scheduler.Cancel(scheduler.RunAtOrWhenStopped(now, task("cancelled")));
  scheduler.Stop();
  EXPECT_THAT(ran, ElementsAre("first", "second"));
  EXPECT_EQ(scheduler.RunAtOrWhenStopped(now, task("late")), 0u);
  scheduler.Stop();
  EXPECT_EQ(ran.size(), 2u);
}

}  // namespace
}  // namespace idempotency::internal
