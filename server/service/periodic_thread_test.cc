#include "server/service/periodic_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <future>
#include <string>
#include <thread>

#include "absl/time/time.h"

namespace idempotency::internal {
namespace {

TEST(PeriodicThreadTest, RepeatsTheStepAfterThePauseThatItReturns) {
  constexpr int kSteps = 3;
  int steps = 0;
  std::promise<void> last;
  PeriodicThread thread("steps", absl::ZeroDuration(), [&]() -> absl::Duration {
    if (++steps < kSteps) return absl::Milliseconds(1);
    last.set_value();
    return absl::Hours(1);
  });
  last.get_future().wait();
  thread.Stop();
  EXPECT_EQ(steps, kSteps);
}

TEST(PeriodicThreadTest, PausesBeforeTheFirstStepAndAStopEndsThePause) {
  std::atomic<int> steps = 0;
  {
    const PeriodicThread thread("waits", absl::Hours(1), [&] {
      ++steps;
      return absl::Hours(1);
    });
  }
  EXPECT_EQ(steps, 0);
}

TEST(PeriodicThreadTest, WithoutAFirstPauseAStepRunsInAnyCase) {
  std::atomic<int> steps = 0;
  {
    const PeriodicThread thread("stops", absl::ZeroDuration(), [&] {
      ++steps;
      return absl::Hours(1);
    });
  }
  EXPECT_EQ(steps, 1);
}

TEST(PeriodicThreadTest, AStepInProgressRunsToItsEnd) {
  std::promise<void> begun;
  std::promise<void> may_end;
  std::atomic<int> ended = 0;
  PeriodicThread thread("long step", absl::ZeroDuration(), [&] {
    begun.set_value();
    may_end.get_future().wait();
    ++ended;
    return absl::Hours(1);
  });
  begun.get_future().wait();
  std::thread stopping([&] { thread.Stop(); });
  may_end.set_value();
  stopping.join();
  EXPECT_EQ(ended, 1);
}

TEST(PeriodicThreadTest, TheThreadHasItsName) {
  std::promise<std::string> named;
  PeriodicThread thread("store-monitor", absl::ZeroDuration(), [&] {
    std::array<char, 16> name{};
    pthread_getname_np(pthread_self(), name.data(), name.size());
    named.set_value(name.data());
    return absl::Hours(1);
  });
  EXPECT_EQ(named.get_future().get(), "store-monitor");
}

TEST(PeriodicThreadTest, AStopMayBeRepeated) {
  PeriodicThread thread("stops", absl::Hours(1), [] { return absl::Hours(1); });
  thread.Stop();
  thread.Stop();
}

}  // namespace
}  // namespace idempotency::internal
