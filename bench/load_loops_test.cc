// The two loops over work that ends at once, at a later time, or always fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <thread>
#include <utility>

#include "absl/status/status.h"

#include "bench/closed_loop.h"
#include "bench/load_report.h"
#include "bench/open_loop.h"
#include "bench/workload.h"
#include "core/mutex.h"

namespace idempotency::internal::bench {
namespace {

// Ends each piece on a thread of its own, `latency` after it was started, one
// after the other. Counts.
class DelayedWork final : public Workload {
 public:
  explicit DelayedWork(std::chrono::milliseconds latency, absl::Status result = absl::OkStatus())
      : latency_(latency), result_(std::move(result)), thread_([this] { Run(); }) {}
  ~DelayedWork() override {
    {
      MutexLock lock(mutex_);
      closed_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }

  void Start(std::uint64_t /*number*/, Done done) override {
    MutexLock lock(mutex_);
    queue_.push_back({std::chrono::steady_clock::now() + latency_, std::move(done)});
    most_ = std::max(most_, queue_.size());
    ++started_;
    changed_.NotifyAll();
  }

  std::size_t most_in_flight() {
    MutexLock lock(mutex_);
    return most_;
  }
  std::uint64_t started() {
    MutexLock lock(mutex_);
    return started_;
  }

 private:
  struct Piece {
    std::chrono::steady_clock::time_point end;
    Done done;
  };

  void Run() {
    while (true) {
      Done done;
      {
        MutexLock lock(mutex_);
        while (queue_.empty() && !closed_) changed_.Wait(lock);
        if (queue_.empty()) return;
        const auto end = queue_.front().end;
        while (changed_.WaitUntil(lock, end)) {
        }
        done = std::move(queue_.front().done);
        queue_.pop_front();
      }
      done(result_);
    }
  }

  const std::chrono::milliseconds latency_;
  const absl::Status result_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Piece> queue_ ABSL_GUARDED_BY(mutex_);
  std::size_t most_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t started_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

TEST(ClosedLoop, KeepsItsNumberInFlight) {
  DelayedWork work(std::chrono::milliseconds(5));
  LoadReport report;
  ClosedLoop::Options options;
  options.in_flight = 8;
  options.duration = absl::Milliseconds(200);
  ClosedLoop(work, report, options).Run();
  EXPECT_EQ(work.most_in_flight(), 8U);
  EXPECT_GE(report.latencies().Quantile(0), absl::Milliseconds(5));
  EXPECT_GT(report.latencies().count(), 8U);
  EXPECT_LE(report.latencies().count(), work.started());
}

TEST(ClosedLoop, EndsAfterSoManyPieces) {
  DelayedWork work(std::chrono::milliseconds(0));
  LoadReport report;
  ClosedLoop::Options options;
  options.in_flight = 4;
  options.duration = absl::Seconds(60);
  options.pieces = 100;
  ClosedLoop(work, report, options).Run();
  EXPECT_EQ(work.started(), 100U);
  EXPECT_EQ(report.latencies().count(), 100U);
  EXPECT_GT(report.PerSecond(), 0);
}

TEST(ClosedLoop, DoesNotCountTheWarmup) {
  DelayedWork work(std::chrono::milliseconds(1));
  LoadReport report;
  ClosedLoop::Options options;
  options.warmup = absl::Milliseconds(100);
  options.duration = absl::Milliseconds(100);
  ClosedLoop(work, report, options).Run();
  EXPECT_LE(report.latencies().count(), 101U);
  EXPECT_GT(work.started(), report.latencies().count());
}

TEST(ClosedLoop, GivesUpWhenEverythingFails) {
  DelayedWork work(std::chrono::milliseconds(0), absl::UnavailableError("gone"));
  LoadReport report;
  ClosedLoop::Options options;
  options.duration = absl::Seconds(60);
  ClosedLoop(work, report, options).Run();
  EXPECT_EQ(report.failures(), ClosedLoop::kMaxFailures);
  EXPECT_EQ(report.latencies().count(), 0U);
  EXPECT_THAT(report.ToJson(), ::testing::HasSubstr("UNAVAILABLE: gone"));
}

TEST(ClosedLoop, PausesWhereItIsRefused) {
  DelayedWork work(std::chrono::milliseconds(0), absl::ResourceExhaustedError("later"));
  LoadReport report;
  ClosedLoop::Options options;
  options.in_flight = 4;
  options.duration = 3 * ClosedLoop::kPause;
  ClosedLoop(work, report, options).Run();
  EXPECT_EQ(report.failures(), 0U);
  EXPECT_GE(report.refused(), 4U);
  EXPECT_LE(report.refused(), 4U * 3);
  EXPECT_EQ(report.refused(), work.started());
}

TEST(OpenLoop, KeepsItsRate) {
  DelayedWork work(std::chrono::milliseconds(1));
  LoadReport report;
  OpenLoop::Options options;
  options.rate = 2000;
  options.duration = absl::Milliseconds(500);
  OpenLoop(work, report, options).Run();
  EXPECT_NEAR(static_cast<double>(report.latencies().count()), 1000, 150);
}

// One piece at a time is answered, each 20 ms after its turn: those behind it
// wait, and their waiting counts.
TEST(OpenLoop, CountsFromWhenAPieceWasDue) {
  class Stall final : public Workload {
   public:
    void Start(std::uint64_t number, Done done) override {
      // Delays the loop itself, as a stalled write would.
      if (number == 0) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
        while (std::chrono::steady_clock::now() < end) {
        }
      }
      done(absl::OkStatus());
    }
  } work;
  LoadReport report;
  OpenLoop::Options options;
  options.rate = 1000;
  options.duration = absl::Milliseconds(200);
  OpenLoop(work, report, options).Run();
  // About a hundred pieces fell due during the stall, on average half of it
  // before its end.
  EXPECT_GT(report.latencies().Quantile(0.75), absl::Milliseconds(15));
}

TEST(OpenLoop, ShedsWhatIsTooMuch) {
  DelayedWork work(std::chrono::milliseconds(50));
  LoadReport report;
  OpenLoop::Options options;
  options.rate = 2000;
  options.duration = absl::Milliseconds(200);
  options.max_in_flight = 3;
  OpenLoop(work, report, options).Run();
  EXPECT_LE(work.most_in_flight(), 3U);
  EXPECT_THAT(report.ToJson(), ::testing::Not(::testing::HasSubstr("\"shed\":0,")));
}

}  // namespace
}  // namespace idempotency::internal::bench
