#ifndef IDEMPOTENCY_SERVER_SERVICE_STORE_MONITOR_H_
#define IDEMPOTENCY_SERVER_SERVICE_STORE_MONITOR_H_

#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/service/periodic_thread.h"
#include "server/store/maintenance_store.h"

namespace idempotency::internal {

// Inspects the store periodically, and passes on the result. Destruction stops
// it.
class StoreMonitor {
 public:
  // Called after every inspection, on the monitor's thread.
  using OnInspected = std::function<void(const absl::StatusOr<StoreGauges>&)>;

  // How long it waits between two inspections.
  struct Intervals {
    // While the store answers.
    absl::Duration answers = absl::Seconds(1);
    // While it does not: callers are refused until an inspection succeeds.
    absl::Duration fails = absl::Milliseconds(300);
  };

  // `store` must outlive it.
  StoreMonitor(MaintenanceStore& store, const Intervals& intervals, OnInspected on_inspected);
  ~StoreMonitor() = default;
  StoreMonitor(const StoreMonitor&) = delete;
  StoreMonitor& operator=(const StoreMonitor&) = delete;

  // Start the thread, at most once, and end it: Stop() returns after at most
  // one more inspection, and may be repeated. Both are for the owner's thread.
  void Start();
  void Stop() { thread_.reset(); }

 private:
  // Returns the pause before the next one.
  absl::Duration Inspect();

  MaintenanceStore& store_;
  const Intervals intervals_;
  const OnInspected on_inspected_;
  std::optional<PeriodicThread> thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SERVICE_STORE_MONITOR_H_
