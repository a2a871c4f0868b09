#include "server/service/store_monitor.h"

#include <pthread.h>

#include <utility>

namespace idempotency::internal {

StoreMonitor::StoreMonitor(MaintenanceStore& store, const Intervals& intervals,
                           OnInspected on_inspected)
    : store_(store), intervals_(intervals), on_inspected_(std::move(on_inspected)) {}

StoreMonitor::~StoreMonitor() { Stop(); }

void StoreMonitor::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "store-monitor");
    Run();
  });
}

void StoreMonitor::Stop() {
  stop_.Stop();
  if (thread_.joinable()) thread_.join();
}

void StoreMonitor::Run() {
  absl::Duration pause;
  do {
    const absl::StatusOr<StoreGauges> gauges = store_.Inspect();
    on_inspected_(gauges);
    pause = gauges.ok() ? intervals_.answers : intervals_.fails;
  } while (stop_.WaitFor(pause));
}

}  // namespace idempotency::internal
