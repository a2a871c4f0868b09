#include "interceptors/server/threads/worker_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/mutex.h"

namespace idempotency::internal {
namespace {

constexpr std::chrono::seconds kLong{30};

// A task that does not end before the test allows it.
class Gate {
 public:
  std::function<void()> Blocked() {
    return [this] {
      ++begun_;
      opened_.wait();
    };
  }
  void Open() { open_.set_value(); }
  // A task that was accepted may not have started yet.
  bool AwaitBegun(int pieces) const {
    const auto limit = std::chrono::steady_clock::now() + kLong;
    while (begun_ < pieces && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    return begun_ == pieces;
  }

 private:
  std::atomic<int> begun_{0};
  std::promise<void> open_;
  std::shared_future<void> opened_{open_.get_future()};
};

// Waits until `pool` has done something new.
bool StillWorks(WorkerPool& pool) {
  auto done = std::make_shared<std::promise<void>>();
  if (pool.Run([done] { done->set_value(); }) != WorkerPool::Outcome::kTaken) return false;
  return done->get_future().wait_for(kLong) == std::future_status::ready;
}

TEST(WorkerPool, RunsEverythingThatItTookBeforeItStops) {
  std::atomic<int> runs{0};
  WorkerPool pool("test", 4);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(pool.Run([&runs] { ++runs; }), WorkerPool::Outcome::kTaken);
  }
  pool.Stop();
  EXPECT_EQ(runs, 100);
  EXPECT_EQ(pool.Run([&runs] { ++runs; }), WorkerPool::Outcome::kStopped);
  EXPECT_EQ(runs, 100);
}

// Such as the cancellation of a call.
TEST(WorkerPool, WhatMustBeDoneIsDoneHereWhereNoThreadStarts) {
  WorkerPool without_threads("test", 0);
  std::thread::id done_by;
  RunThereOrHere(
      without_threads, [&done_by] { done_by = std::this_thread::get_id(); }, /*if_stopped=*/[] {});
  EXPECT_EQ(done_by, std::this_thread::get_id());
}

TEST(WorkerPool, EachPieceThatBlocksCostsOneThread) {
  Gate gate;
  WorkerPool pool("test", 4);
  for (int blocked = 1; blocked < 4; ++blocked) {
    ASSERT_EQ(pool.Run(gate.Blocked()), WorkerPool::Outcome::kTaken);
    EXPECT_TRUE(StillWorks(pool)) << blocked << " blocked";
  }
  EXPECT_TRUE(gate.AwaitBegun(3));
  gate.Open();
}

// Accepted together: no later call notices that the first ones are blocked.
TEST(WorkerPool, WhatStandsBehindBlockedPiecesIsFetched) {
  Gate gate;
  WorkerPool pool("test", 4);
  std::promise<void> last;
  for (int i = 0; i < 3; ++i) pool.Run(gate.Blocked());
  pool.Run([&last] { last.set_value(); });
  EXPECT_EQ(last.get_future().wait_for(kLong), std::future_status::ready);
  gate.Open();
}

TEST(WorkerPool, RefusesWhatIsOverItsLimit) {
  Gate gate;
  std::promise<void> begun;
  std::atomic<int> runs{0};
  WorkerPool pool("test", 1, /*max_waiting=*/2);
  pool.Run([&, blocked = gate.Blocked()] {
    begun.set_value();
    blocked();
  });
  begun.get_future().wait();
  EXPECT_EQ(pool.Run([&runs] { ++runs; }), WorkerPool::Outcome::kTaken);
  EXPECT_EQ(pool.Run([&runs] { ++runs; }), WorkerPool::Outcome::kTaken);
  EXPECT_EQ(pool.Run([&runs] { ++runs; }), WorkerPool::Outcome::kFull);
  gate.Open();
  pool.Stop();
  EXPECT_EQ(runs, 2) << "what was taken runs, and nothing else";
}

TEST(WorkerPool, HasNoMoreThreadsThanItMay) {
  Mutex mutex;
  std::set<std::string> names;
  const auto note_name = [&] {
    std::array<char, 16> name{};
    pthread_getname_np(pthread_self(), name.data(), name.size());
    MutexLock lock(mutex);
    names.insert(name.data());
  };
  std::promise<void> second_begun;
  std::promise<void> first_done;
  WorkerPool pool("guard-kind", 2);
  // Each thread has a task, even if one of them starts slowly.
  pool.Run([&] {
    second_begun.get_future().wait_for(std::chrono::seconds(20));
    note_name();
    first_done.set_value();
  });
  pool.Run([&] {
    note_name();
    second_begun.set_value();
  });
  // A stopped pool starts no more threads.
  first_done.get_future().wait();
  for (int i = 0; i < 200; ++i) pool.Run(note_name);
  pool.Stop();
  MutexLock lock(mutex);
  EXPECT_EQ(names.count("guard-kind-1"), 1U);
  EXPECT_EQ(names.count("guard-kind-2"), 1U);
  names.erase("guard-kind-1");
  names.erase("guard-kind-2");
  EXPECT_TRUE(names.empty()) << *names.begin();
}

TEST(WorkerPool, TakesWorkFromManyThreadsAndFromItself) {
  std::atomic<int> runs{0};
  WorkerPool pool("test", 4);
  std::vector<std::thread> callers;
  std::vector<std::future<void>> done;
  for (int i = 0; i < 8; ++i) {
    auto last = std::make_shared<std::promise<void>>();
    done.push_back(last->get_future());
    callers.emplace_back([&pool, &runs, last] {
      pool.Run([&pool, &runs, last] {
        ++runs;
        pool.Run([&runs, last] {
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
}  // namespace idempotency::internal
