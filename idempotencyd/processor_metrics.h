#ifndef IDEMPOTENCY_IDEMPOTENCYD_PROCESSOR_METRICS_H_
#define IDEMPOTENCY_IDEMPOTENCYD_PROCESSOR_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/node_hash_map.h"

#include "core/log_throttle.h"
#include "core/mutex.h"
#include "interceptors/ext_proc/service/processor_events.h"

namespace idempotency::internal {

// The metrics of the external processor, and its log lines: of each text one a second at most. The
// metrics exist only in a daemon that has a processor. Thread-safe.
class ProcessorMetrics final : public ProcessorEvents {
 public:
  explicit ProcessorMetrics(prometheus::Registry& registry);

  void Ended(ExchangeResult result) override;
  void Misconfigured(absl::string_view what) override;
  void RefusedUnconfigured(absl::string_view what) override;
  void Holds(std::size_t exchanges, std::size_t bytes) override;

 private:
  // Texts are of the code and of the configuration. Those beyond this many have one throttle.
  static constexpr std::size_t kMaxTexts = 100;
  static constexpr std::size_t kResults = static_cast<std::size_t>(ExchangeResult::kBroken) + 1;

  // As LogThrottle::Admit(), for this text: what callers cause must not hide what they do not.
  std::optional<std::int64_t> Admit(absl::string_view what);

  std::array<prometheus::Counter*, kResults> ended_{};
  prometheus::Counter& misconfigured_;
  prometheus::Gauge& exchanges_;
  prometheus::Gauge& held_bytes_;
  LogThrottle others_;
  Mutex mutex_;
  absl::node_hash_map<std::string, LogThrottle> throttles_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_IDEMPOTENCYD_PROCESSOR_METRICS_H_
