#ifndef IDEMPOTENCY_BENCH_LOAD_REPORT_H_
#define IDEMPOTENCY_BENCH_LOAD_REPORT_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "bench/latency_histogram.h"
#include "core/mutex.h"

namespace idempotency::internal::bench {

// The results of a loop. Thread-safe.
class LoadReport {
 public:
  // A piece that succeeded inside the measured time.
  void Measured(absl::Duration latency) { latencies_.Record(latency); }
  // A piece that succeeded at any time: a store's work in all.
  void Ended() { ended_.fetch_add(1, std::memory_order_relaxed); }
  // Returns the number of failures so far.
  std::uint64_t Failed(const absl::Status& status);
  // A piece that the server refused temporarily (RESOURCE_EXHAUSTED).
  void Refused() { refused_.fetch_add(1, std::memory_order_relaxed); }
  // A piece that was due, but too many were under way.
  void Shed() { shed_.fetch_add(1, std::memory_order_relaxed); }
  // The measured time.
  void set_measured_time(absl::Duration duration) { measured_time_ = duration; }

  const LatencyHistogram& latencies() const { return latencies_; }
  double PerSecond() const;
  std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }
  std::uint64_t failures() const { return failures_.load(std::memory_order_relaxed); }
  // One JSON object on one line.
  std::string ToJson() const;

 private:
  LatencyHistogram latencies_;
  std::atomic<std::uint64_t> ended_{0};
  std::atomic<std::uint64_t> failures_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> shed_{0};
  absl::Duration measured_time_;
  mutable Mutex mutex_;
  absl::Status first_failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_LOAD_REPORT_H_
