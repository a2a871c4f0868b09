#ifndef IDEMPOTENCY_BENCH_LATENCY_HISTOGRAM_H_
#define IDEMPOTENCY_BENCH_LATENCY_HISTOGRAM_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace idempotency::internal::bench {

// Counts latencies in buckets that grow with the value: each power of two is divided into 128, so
// that any quantile is exact to 0.8 %, from 1 ns to 18 min. A longer latency counts as the longest.
// Recording costs a few instructions and never allocates.
//
// Thread-safe. Reading while others record sees some of their records.
class LatencyHistogram {
 public:
  void Record(absl::Duration latency);
  // Adds the counts of another one.
  void Add(const LatencyHistogram& other);

  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  // The exact longest; zero if there is none.
  absl::Duration max() const;
  absl::Duration mean() const;
  // The smallest latency that a share `quantile` (0 to 1) of all does not exceed: the upper edge of
  // its bucket, at most max(). Zero if there is none.
  absl::Duration Quantile(double quantile) const;

 private:
  static constexpr int kSubBucketBits = 7;
  static constexpr std::uint64_t kSubBuckets = 1U << kSubBucketBits;
  static constexpr int kValueBits = 40;
  static constexpr std::uint64_t kLongest = (std::uint64_t{1} << kValueBits) - 1;
  static constexpr std::size_t kBuckets = (kValueBits - kSubBucketBits + 1) * kSubBuckets;

  static std::size_t BucketOf(std::uint64_t nanoseconds);
  // The largest value that falls into a bucket.
  static std::uint64_t UpperEdge(std::size_t bucket);

  std::array<std::atomic<std::uint64_t>, kBuckets> buckets_{};
  std::atomic<std::uint64_t> count_{0};
  std::atomic<std::uint64_t> sum_{0};
  std::atomic<std::uint64_t> max_{0};
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_LATENCY_HISTOGRAM_H_
