#include "server/console/overview.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

namespace idempotency::internal {
namespace {

// "" if it has no such label.
std::string LabelOf(const prometheus::ClientMetric& metric, std::string_view name) {
  for (const prometheus::ClientMetric::Label& label : metric.label) {
    if (label.name == name) return label.value;
  }
  return "";
}

void AddVerdicts(const prometheus::MetricFamily& family, console::v1::Overview& overview) {
  for (const prometheus::ClientMetric& metric : family.metric) {
    (*overview.mutable_verdicts())[LabelOf(metric, "verdict")] = metric.counter.value;
  }
}

// The sum over the status codes of Reserve.
void AddLatency(const prometheus::MetricFamily& family, console::v1::Latency& latency) {
  for (const prometheus::ClientMetric& metric : family.metric) {
    if (LabelOf(metric, "method") != "Reserve") continue;
    const std::vector<prometheus::ClientMetric::Bucket>& buckets = metric.histogram.bucket;
    if (latency.counts_size() == 0) {
      for (const prometheus::ClientMetric::Bucket& bucket : buckets) {
        if (std::isfinite(bucket.upper_bound)) latency.add_bounds_seconds(bucket.upper_bound);
        latency.add_counts(0);
      }
    }
    double below = 0;
    const int known = std::min(latency.counts_size(), static_cast<int>(buckets.size()));
    for (int i = 0; i < known; ++i) {
      const auto cumulative =
          static_cast<double>(buckets[static_cast<std::size_t>(i)].cumulative_count);
      latency.set_counts(i, latency.counts(i) + cumulative - below);
      below = cumulative;
    }
  }
}

// 0 if it is not known yet.
double GaugeOf(const prometheus::MetricFamily& family) {
  const double value = family.metric.empty() ? 0 : family.metric.front().gauge.value;
  return std::isnan(value) ? 0 : value;
}

}  // namespace

void ReadMetrics(const prometheus::Registry& registry, console::v1::Overview& overview) {
  for (const prometheus::MetricFamily& family : registry.Collect()) {
    const std::string_view name = family.name;
    if (name == "idempotency_verdicts_total") AddVerdicts(family, overview);
    if (name == "idempotency_rpc_duration_seconds") {
      AddLatency(family, *overview.mutable_latency());
    }
    if (name == "idempotency_store_up") overview.set_store_up(GaugeOf(family) > 0);
    if (name == "idempotency_unknown_records") overview.set_unknown_records(GaugeOf(family));
    if (name == "idempotency_oldest_reservation_age_seconds") {
      overview.set_oldest_reservation_age_seconds(GaugeOf(family));
    }
    if (name == "idempotency_sessions") overview.set_sessions(GaugeOf(family));
    if (name == "idempotency_waiters") overview.set_waiters(GaugeOf(family));
  }
}

}  // namespace idempotency::internal
