#include "interceptors/server/threads/worker_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace idempotency {
namespace {

TEST(WorkerThreads, RunsEverythingThatItTookBeforeItStops) {
  std::atomic<int> runs{0};
  WorkerThreads workers;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(workers.Run([&runs] { ++runs; }));
  }
  workers.Stop();
  EXPECT_EQ(runs, 100);
  EXPECT_FALSE(workers.Run([&runs] { ++runs; }));
  EXPECT_EQ(runs, 100);
}

TEST(WorkerThreads, OnePieceThatBlocksDoesNotHoldTheOthersUp) {
  std::promise<void> go_on;
  std::promise<void> other;
  WorkerThreads workers;
  workers.Run([held = go_on.get_future().share()] { held.wait(); });
  workers.Run([&other] { other.set_value(); });
  other.get_future().wait();
  go_on.set_value();
}

TEST(WorkerThreads, TakesWorkFromManyThreadsAndFromItself) {
  std::atomic<int> runs{0};
  WorkerThreads workers;
  std::vector<std::thread> callers;
  std::vector<std::future<void>> done;
  for (int i = 0; i < 8; ++i) {
    auto last = std::make_shared<std::promise<void>>();
    done.push_back(last->get_future());
    callers.emplace_back([&workers, &runs, last] {
      workers.Run([&workers, &runs, last] {
        ++runs;
        workers.Run([&runs, last] {
          ++runs;
          last->set_value();
        });
      });
    });
  }
  for (auto& caller : callers) caller.join();
  for (auto& each : done) each.wait();
  EXPECT_EQ(runs, 16);
}

}  // namespace
}  // namespace idempotency
