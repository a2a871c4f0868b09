#include "bench/latency_histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace idempotency::internal::bench {
namespace {

// The value at a quantile of a sorted list, by its definition.
std::int64_t ExactQuantile(const std::vector<std::int64_t>& sorted, double quantile) {
  const auto rank = static_cast<std::size_t>(
      std::max(1.0, std::ceil(quantile * static_cast<double>(sorted.size()))));
  return sorted[rank - 1];
}

TEST(LatencyHistogram, IsZeroWhenEmpty) {
  const LatencyHistogram histogram;
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.Quantile(0.5), absl::ZeroDuration());
  EXPECT_EQ(histogram.mean(), absl::ZeroDuration());
  EXPECT_EQ(histogram.max(), absl::ZeroDuration());
}

TEST(LatencyHistogram, IsExactForOneValue) {
  for (const std::int64_t value : {0L, 1L, 127L, 128L, 255L, 256L, 257L, 123456789L}) {
    LatencyHistogram histogram;
    histogram.Record(absl::Nanoseconds(value));
    EXPECT_EQ(histogram.Quantile(0.5), absl::Nanoseconds(value)) << value;
    EXPECT_EQ(histogram.mean(), absl::Nanoseconds(value)) << value;
  }
}

// Against the list itself, over eight powers of ten.
TEST(LatencyHistogram, QuantilesAreWithinOnePercent) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> latencies(11, 3);
  LatencyHistogram histogram;
  std::vector<std::int64_t> values;
  for (int i = 0; i < 20000; ++i) {
    values.push_back(static_cast<std::int64_t>(latencies(random)));
    histogram.Record(absl::Nanoseconds(values.back()));
  }
  std::sort(values.begin(), values.end());
  for (const double quantile : {0.0, 0.001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto exact = static_cast<double>(ExactQuantile(values, quantile));
    const auto answered =
        static_cast<double>(absl::ToInt64Nanoseconds(histogram.Quantile(quantile)));
    EXPECT_GE(answered, exact) << quantile;
    EXPECT_LE(answered, exact * 1.008 + 1) << quantile;
  }
  EXPECT_EQ(histogram.max(), absl::Nanoseconds(values.back()));
}

TEST(LatencyHistogram, WhatIsTooLongCountsAsTheLongest) {
  LatencyHistogram histogram;
  histogram.Record(absl::Hours(5));
  histogram.Record(absl::InfiniteDuration());
  histogram.Record(absl::Seconds(-1));
  EXPECT_EQ(histogram.count(), 3U);
  EXPECT_EQ(histogram.Quantile(0), absl::ZeroDuration());
  EXPECT_GT(histogram.max(), absl::Minutes(18));
  EXPECT_LT(histogram.max(), absl::Minutes(19));
}

TEST(LatencyHistogram, AddsAnother) {
  LatencyHistogram fast;
  LatencyHistogram slow;
  for (int i = 0; i < 99; ++i) fast.Record(absl::Microseconds(100));
  slow.Record(absl::Milliseconds(50));
  fast.Add(slow);
  EXPECT_EQ(fast.count(), 100U);
  EXPECT_EQ(fast.max(), absl::Milliseconds(50));
  EXPECT_LT(fast.Quantile(0.99), absl::Microseconds(101));
  EXPECT_EQ(fast.Quantile(1), absl::Milliseconds(50));
}

TEST(LatencyHistogram, CountsFromSeveralThreads) {
  LatencyHistogram histogram;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&histogram, t] {
      for (int i = 0; i < 10000; ++i) histogram.Record(absl::Nanoseconds(t * 10000 + i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(histogram.count(), 40000U);
  EXPECT_EQ(histogram.max(), absl::Nanoseconds(39999));
}

}  // namespace
}  // namespace idempotency::internal::bench
