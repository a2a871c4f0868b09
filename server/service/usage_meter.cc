#include "server/service/usage_meter.h"

#include <chrono>

#include "absl/status/statusor.h"

#include "server/observability/log.h"

namespace idempotency::internal {

UsageMeter::UsageMeter(MaintenanceStore& store, Tenants& tenants, const Options& options)
    : store_(store), tenants_(tenants), options_(options) {}

UsageMeter::~UsageMeter() { Stop(); }

void UsageMeter::Start() {
  thread_.emplace("usage-meter", absl::ZeroDuration(), [this] {
    Report(RunOnce());
    return options_.interval;
  });
}

void UsageMeter::Stop() {
  stop_.Stop();
  thread_.reset();
}

void UsageMeter::Report(const absl::Status& measured) {
  // Once for an outage.
  if (!measured.ok() && !failing_) {
    Log(LogLevel::kWarn, "usage cannot be measured, the last measurement applies",
        {{"error", measured.message()}});
  }
  failing_ = !measured.ok();
}

absl::Status UsageMeter::RunOnce() {
  absl::Status first;
  for (const Tenants::Quota& quota : tenants_.Quotas()) {
    first.Update(Measure(quota));
    // Each failure may have taken the store's timeout.
    if (!stop_.WaitFor(absl::ZeroDuration())) break;
  }
  return first;
}

absl::Status UsageMeter::Measure(const Tenants::Quota& quota) {
  tenants_.BeginMeasurement(quota.name_space);
  NamespaceUsage usage;
  std::int64_t visited = 0;
  UsageOp op;
  op.name_space = quota.name_space;
  op.limit = options_.batch;
  do {
    const auto began = std::chrono::steady_clock::now();
    const absl::StatusOr<UsageStep> step = store_.MeasureUsage(op);
    if (!step.ok()) return step.status();
    usage.records += step->usage.records;
    usage.reply_bytes += step->usage.reply_bytes;
    visited += step->visited;
    op.after = step->next;
    const bool exceeded =
        usage.records > quota.most.records || usage.reply_bytes > quota.most.reply_bytes;
    if (exceeded || visited >= options_.max_rows) break;
    const auto took = std::chrono::steady_clock::now() - began;
    if (op.after && !stop_.WaitFor(absl::FromChrono(took) * options_.rest)) {
      return absl::OkStatus();
    }
  } while (op.after);
  tenants_.EndMeasurement(quota.name_space, usage);
  return absl::OkStatus();
}

}  // namespace idempotency::internal
