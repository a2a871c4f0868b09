#include "bench/latency_histogram.h"

#include <algorithm>
#include <cmath>

namespace idempotency::internal::bench {
namespace {

constexpr std::memory_order kRelaxed = std::memory_order_relaxed;

// The number of bits of `value`; at least 1.
int BitWidth(std::uint64_t value) { return 64 - __builtin_clzll(value | 1); }

void RaiseTo(std::uint64_t value, std::atomic<std::uint64_t>& max) {
  std::uint64_t seen = max.load(kRelaxed);
  while (seen < value && !max.compare_exchange_weak(seen, value, kRelaxed)) {
  }
}

absl::Duration FromCount(std::uint64_t nanoseconds) {
  return absl::Nanoseconds(static_cast<std::int64_t>(nanoseconds));
}

}  // namespace

// Values under 128 have a bucket each. Above, the eight leading bits choose it.
std::size_t LatencyHistogram::BucketOf(std::uint64_t nanoseconds) {
  const int shift = std::max(0, BitWidth(nanoseconds) - (kSubBucketBits + 1));
  return static_cast<std::size_t>(shift) * kSubBuckets + (nanoseconds >> shift);
}

std::uint64_t LatencyHistogram::UpperEdge(std::size_t bucket) {
  if (bucket < 2 * kSubBuckets) return bucket;
  const std::size_t shift = bucket / kSubBuckets - 1;
  const std::uint64_t leading = bucket - shift * kSubBuckets;
  return ((leading + 1) << shift) - 1;
}

void LatencyHistogram::Record(absl::Duration latency) {
  const auto value = std::min<std::uint64_t>(
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, absl::ToInt64Nanoseconds(latency))),
      kLongest);
  buckets_[BucketOf(value)].fetch_add(1, kRelaxed);
  count_.fetch_add(1, kRelaxed);
  sum_.fetch_add(value, kRelaxed);
  RaiseTo(value, max_);
}

void LatencyHistogram::Add(const LatencyHistogram& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) {
    buckets_[i].fetch_add(other.buckets_[i].load(kRelaxed), kRelaxed);
  }
  count_.fetch_add(other.count_.load(kRelaxed), kRelaxed);
  sum_.fetch_add(other.sum_.load(kRelaxed), kRelaxed);
  RaiseTo(other.max_.load(kRelaxed), max_);
}

absl::Duration LatencyHistogram::max() const { return FromCount(max_.load(kRelaxed)); }

absl::Duration LatencyHistogram::mean() const {
  const std::uint64_t counted = count();
  return counted == 0 ? absl::ZeroDuration() : FromCount(sum_.load(kRelaxed) / counted);
}

absl::Duration LatencyHistogram::Quantile(double quantile) const {
  const std::uint64_t counted = count();
  if (counted == 0) return absl::ZeroDuration();
  const auto wanted = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(std::ceil(quantile * static_cast<double>(counted))));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i].load(kRelaxed);
    if (seen >= wanted) return std::min(FromCount(UpperEdge(i)), max());
  }
  return max();
}

}  // namespace idempotency::internal::bench
