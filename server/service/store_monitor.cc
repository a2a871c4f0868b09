#include "server/service/store_monitor.h"

#include <utility>

namespace idempotency::internal {

StoreMonitor::StoreMonitor(MaintenanceStore& store, const Intervals& intervals,
                           OnInspected on_inspected)
    : store_(store), intervals_(intervals), on_inspected_(std::move(on_inspected)) {}

void StoreMonitor::Start() {
  thread_.emplace("store-monitor", absl::ZeroDuration(), [this] { return Inspect(); });
}

absl::Duration StoreMonitor::Inspect() {
  const absl::StatusOr<StoreGauges> gauges = store_.Inspect();
  on_inspected_(gauges);
  return gauges.ok() ? intervals_.answers : intervals_.fails;
}

}  // namespace idempotency::internal
