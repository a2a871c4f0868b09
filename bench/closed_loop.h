#ifndef IDEMPOTENCY_BENCH_CLOSED_LOOP_H_
#define IDEMPOTENCY_BENCH_CLOSED_LOOP_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "bench/load_report.h"
#include "bench/workload.h"
#include "core/mutex.h"

namespace idempotency::internal::bench {

// Keeps a fixed number of pieces under way: as soon as one ends, the next one starts, on the thread
// that received the end. Without threads of its own, so that it uses little of the processors that
// it measures. After a temporary refusal the next piece follows after a pause, as a caller should
// do it.
class ClosedLoop {
 public:
  struct Options {
    int in_flight = 1;
    // Runs first and is not counted.
    absl::Duration warmup;
    absl::Duration duration = absl::Seconds(1);
    // Ends after this many pieces.
    std::uint64_t pieces = std::numeric_limits<std::uint64_t>::max();
  };
  // After this many failures, other than refusals, the loop stops.
  static constexpr std::uint64_t kMaxFailures = 100;
  static constexpr absl::Duration kPause = absl::Milliseconds(50);

  // Both must outlive it.
  ClosedLoop(Workload& workload, LoadReport& report, const Options& options);

  // Runs once, and returns when the last piece has ended.
  void Run();

 private:
  using Time = std::chrono::steady_clock::time_point;
  // A cache line each: they are written by different threads.
  struct alignas(64) Slot {
    Time started;
  };

  void Next(std::size_t slot, Time now);
  void Ended(std::size_t slot, const absl::Status& status);
  void EndLane();
  void Pause(std::size_t slot, Time now);
  // Waits for the end of all slots, and starts those whose pause is over.
  void Attend();

  Workload& workload_;
  LoadReport& report_;
  const Options options_;
  Time measure_from_;
  Time end_;
  std::vector<Slot> slots_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> stop_{false};
  Mutex mutex_;
  CondVar changed_;
  std::size_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  // In the order of their ends.
  std::deque<std::pair<Time, std::size_t>> paused_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_CLOSED_LOOP_H_
