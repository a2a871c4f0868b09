#ifndef IDEMPOTENCY_BENCH_OPEN_LOOP_H_
#define IDEMPOTENCY_BENCH_OPEN_LOOP_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "bench/load_report.h"
#include "bench/workload.h"
#include "core/mutex.h"

namespace idempotency::internal::bench {

// Starts pieces at a given rate, whether or not earlier ones have ended, at moments drawn as those
// of independent callers are (a Poisson process). Latency is counted from the moment at which a
// piece was due, so that pieces that a stall delays count too (no coordinated omission).
class OpenLoop {
 public:
  struct Options {
    // Pieces per second; over 0.
    double rate = 1000;
    // Runs first and is not counted.
    absl::Duration warmup;
    absl::Duration duration = absl::Seconds(1);
    // With this many under way, due pieces are shed and counted as such.
    std::size_t max_in_flight = 16 * 1024;
    std::uint64_t seed = 1;
    // After this many failures the loop stops.
    std::uint64_t max_failures = 100;
  };

  // Both must outlive it.
  OpenLoop(Workload& workload, LoadReport& report, const Options& options);

  // Runs once, on the calling thread, and returns when the last piece has ended.
  void Run();

 private:
  using Time = std::chrono::steady_clock::time_point;

  void StartPiece(std::uint64_t number, Time due);
  void Ended(Time due, const absl::Status& status);
  void AwaitAll();

  Workload& workload_;
  LoadReport& report_;
  const Options options_;
  std::mt19937_64 random_;
  Time measure_from_;
  Time end_;
  Mutex mutex_;
  CondVar ended_;
  std::size_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_OPEN_LOOP_H_
