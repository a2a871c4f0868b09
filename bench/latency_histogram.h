#ifndef IDEMPOTENCY_BENCH_LATENCY_HISTOGRAM_H_
#define IDEMPOTENCY_BENCH_LATENCY_HISTOGRAM_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace idempotency::internal::bench {

// Counts latencies in buckets that grow with the value: each power of two is
// cut into 128, so that any quantile is right to 0.8 %, from 1 ns to 18 min. What
// is longer counts as the longest. Recording costs a handful of instructions
// and never allocates.
//
// Thread-safe. Reading while others record sees some of what they recorded.
class LatencyHistogram {
 public:
  void Record(absl::Duration latency);
  // Adds what another one counted.
  void Add(const LatencyHistogram& other);

  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  // The exact longest; zero if there is none.
  absl::Duration max() const;
  absl::Duration mean() const;
  // The latency that a share `quantile` (0 to 1) of all stayed at or under: the
  // upper edge of its bucket, at most max(). Zero if there is none.
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
