#ifndef IDEMPOTENCY_SERVER_SERVICE_USAGE_METER_H_
#define IDEMPOTENCY_SERVER_SERVICE_USAGE_METER_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "server/service/periodic_thread.h"
#include "server/service/stop_latch.h"
#include "server/store/maintenance_store.h"
#include "server/tenants/tenants.h"

namespace idempotency::internal {

// Measures what the records of each namespace with a quota use, in small steps with a pause after
// each, so that calls keep their share of the store. Every replica measures for itself.
//
// Destruction stops it. RunOnce() may be called from any thread, one at a time.
class UsageMeter {
 public:
  struct Options {
    // Between the end of a pass and the start of the next.
    absl::Duration interval = absl::Seconds(10);
    // Rows that one step reads.
    int batch = 2000;
    // The pause after a step, as a multiple of its duration: a tenth of one connection at most.
    double rest = 9;
    // Rows of one namespace; those behind them are not counted.
    std::int64_t max_rows = 10'000'000;
  };

  // Both must outlive it.
  UsageMeter(MaintenanceStore& store, Tenants& tenants, const Options& options);
  ~UsageMeter();
  UsageMeter(const UsageMeter&) = delete;
  UsageMeter& operator=(const UsageMeter&) = delete;

  // Start the thread, at most once, and end it: Stop() returns after at most one more step, and may
  // be repeated. Both are for the owner's thread.
  void Start();
  void Stop();

  // One pass on the calling thread. After an error of the store the last measurements stay.
  absl::Status RunOnce();

 private:
  void Report(const absl::Status& measured);
  // A namespace is counted until it exceeds its quota.
  absl::Status Measure(const Tenants::Quota& quota);

  MaintenanceStore& store_;
  Tenants& tenants_;
  const Options options_;
  // The thread's own: the last pass failed.
  bool failing_ = false;
  // Ends a pause within a pass.
  StopLatch stop_;
  std::optional<PeriodicThread> thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SERVICE_USAGE_METER_H_
