#ifndef IDEMPOTENCY_IDEMPOTENCYD_PROCESSOR_METRICS_H_
#define IDEMPOTENCY_IDEMPOTENCYD_PROCESSOR_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <array>
#include <cstddef>

#include "core/log_throttle.h"
#include "interceptors/ext_proc/service/processor_events.h"

namespace idempotency::internal {

// The metrics of the external processor, and its log lines: one a second at most. The metrics exist
// only in a daemon that has a processor. Thread-safe.
class ProcessorMetrics final : public ProcessorEvents {
 public:
  explicit ProcessorMetrics(prometheus::Registry& registry);

  void Ended(ExchangeResult result) override;
  void Misconfigured(absl::string_view what) override;
  void Holds(std::size_t exchanges, std::size_t bytes) override;

 private:
  static constexpr std::size_t kResults = static_cast<std::size_t>(ExchangeResult::kBroken) + 1;

  std::array<prometheus::Counter*, kResults> ended_{};
  prometheus::Counter& misconfigured_;
  prometheus::Gauge& exchanges_;
  prometheus::Gauge& held_bytes_;
  LogThrottle throttle_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_IDEMPOTENCYD_PROCESSOR_METRICS_H_
