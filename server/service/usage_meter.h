#ifndef IDEMPOTENCY_SERVER_SERVICE_USAGE_METER_H_
#define IDEMPOTENCY_SERVER_SERVICE_USAGE_METER_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/clock.h"
#include "server/service/periodic_thread.h"
#include "server/store/maintenance_store.h"
#include "server/tenants/tenants.h"

namespace idempotency::internal {

// Measures what the records of each namespace with a quota use, in small steps with a pause after
// each, so that calls keep their share of the store. The namespaces take turns step by step, so
// that none waits until the many records of others are counted; every second turn is of those whose
// quota was found reached. Every replica measures for itself.
//
// Destruction stops it. RunOnce() may be called from any thread, one at a time.
class UsageMeter {
 public:
  struct Options {
    // Between the end of a namespace's measurement, or its failure, and its next step.
    absl::Duration interval = absl::Seconds(10);
    // Rows that one step reads.
    int batch = 2000;
    // The pause after a step, as a multiple of its duration: a tenth of one connection at most.
    double rest = 9;
    // Rows of one namespace; those behind them are not counted.
    std::int64_t max_rows = 10'000'000;
  };

  // All must outlive it.
  UsageMeter(MaintenanceStore& store, Tenants& tenants, const Options& options,
             const Clock& clock = Clock::System());
  ~UsageMeter();
  UsageMeter(const UsageMeter&) = delete;
  UsageMeter& operator=(const UsageMeter&) = delete;

  // Start the thread, at most once, and end it: Stop() returns after at most one more step, and may
  // be repeated. Both are for the owner's thread.
  void Start();
  void Stop();

  // Steps on the calling thread, without pauses, until no namespace is due. Returns the first
  // error. After an error of the store the last measurement stays, and the one in progress
  // continues where it was.
  absl::Status RunOnce();

 private:
  using Time = std::chrono::steady_clock::time_point;

  // One of a namespace: in progress, or the next.
  struct Measurement {
    Time due = Time::min();
    bool in_progress = false;
    // The last step failed.
    bool failing = false;
    UsageOp op;
    NamespaceUsage usage;
    std::int64_t visited = 0;
  };

  // Takes one step, if a namespace is due. Returns the pause before the next one.
  absl::Duration Step();
  // The namespace whose turn it is, among those that are due.
  std::optional<Tenants::Quota> NextTurn();
  absl::Status Measure(const Tenants::Quota& quota);
  // True if the measurement is over. A namespace is counted until it exceeds its quota.
  absl::StatusOr<bool> Read(const Tenants::Quota& quota, Measurement& measurement);
  void Report(const std::string& name_space, const absl::Status& failure);

  MaintenanceStore& store_;
  Tenants& tenants_;
  const Options options_;
  const Clock& clock_;
  // By namespace.
  std::map<std::string, Measurement> measurements_;
  // The namespaces that had the last turn: of all, and of those whose quota was reached.
  std::string last_;
  std::string last_reached_;
  bool turn_of_reached_ = false;
  Time next_report_ = Time::min();
  std::optional<PeriodicThread> thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SERVICE_USAGE_METER_H_
