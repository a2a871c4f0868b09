#include "server/service/usage_meter.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "grpc_idempotency/deadline.h"
#include "server/observability/log.h"

namespace idempotency::internal {
namespace {

constexpr std::chrono::minutes kPauseBetweenReports(1);

// The first behind `last`, or the first of all.
const Tenants::Quota& Following(const std::string& last,
                                const std::vector<const Tenants::Quota*>& by_name) {
  for (const Tenants::Quota* const quota : by_name) {
    if (quota->name_space > last) return *quota;
  }
  return *by_name.front();
}

}  // namespace

UsageMeter::UsageMeter(MaintenanceStore& store, Tenants& tenants, const Options& options,
                       const Clock& clock)
    : store_(store), tenants_(tenants), options_(options), clock_(clock) {}

UsageMeter::~UsageMeter() { Stop(); }

void UsageMeter::Start() {
  thread_.emplace("usage-meter", absl::ZeroDuration(), [this] { return Step(); });
}

void UsageMeter::Stop() { thread_.reset(); }

absl::Status UsageMeter::RunOnce() {
  absl::Status first;
  while (const std::optional<Tenants::Quota> quota = NextTurn()) first.Update(Measure(*quota));
  return first;
}

absl::Duration UsageMeter::Step() {
  const std::optional<Tenants::Quota> quota = NextTurn();
  const Time began = clock_.Monotonic();
  if (!quota) {
    Time next = After(began, options_.interval);
    for (const auto& [name, measurement] : measurements_) next = std::min(next, measurement.due);
    return absl::FromChrono(next - began);
  }
  const absl::Status measured = Measure(*quota);
  const absl::Duration rest = absl::FromChrono(clock_.Monotonic() - began) * options_.rest;
  // A failure may have taken the store's timeout.
  return measured.ok() ? rest : std::min(rest, options_.interval);
}

std::optional<Tenants::Quota> UsageMeter::NextTurn() {
  const std::vector<Tenants::Quota> quotas = tenants_.Quotas();
  const Time now = clock_.Monotonic();
  std::map<std::string, Measurement> current;
  std::vector<const Tenants::Quota*> due;
  std::vector<const Tenants::Quota*> reached;
  for (const Tenants::Quota& quota : quotas) {
    Measurement& measurement =
        current.emplace(quota.name_space, std::move(measurements_[quota.name_space])).first->second;
    if (measurement.due > now) continue;
    due.push_back(&quota);
    if (quota.reached) reached.push_back(&quota);
  }
  // Without the namespaces that have no quota any more.
  measurements_ = std::move(current);
  if (due.empty()) return std::nullopt;
  turn_of_reached_ = !turn_of_reached_ && !reached.empty();
  const Tenants::Quota& next =
      turn_of_reached_ ? Following(last_reached_, reached) : Following(last_, due);
  (turn_of_reached_ ? last_reached_ : last_) = next.name_space;
  return next;
}

absl::Status UsageMeter::Measure(const Tenants::Quota& quota) {
  Measurement& measurement = measurements_[quota.name_space];
  if (!measurement.in_progress) {
    tenants_.BeginMeasurement(quota.name_space);
    measurement = Measurement();
    measurement.in_progress = true;
    measurement.op.name_space = quota.name_space;
    measurement.op.limit = options_.batch;
  }
  const absl::StatusOr<bool> over = Read(quota, measurement);
  if (!over.ok() && !measurement.failing) Report(quota.name_space, over.status());
  measurement.failing = !over.ok();
  if (over.ok() && !*over) return absl::OkStatus();
  measurement.due = After(clock_.Monotonic(), options_.interval);
  if (!over.ok()) return over.status();
  measurement.in_progress = false;
  tenants_.EndMeasurement(quota.name_space, measurement.usage);
  return absl::OkStatus();
}

absl::StatusOr<bool> UsageMeter::Read(const Tenants::Quota& quota, Measurement& measurement) {
  const absl::StatusOr<UsageStep> step = store_.MeasureUsage(measurement.op);
  if (!step.ok()) return step.status();
  NamespaceUsage& usage = measurement.usage;
  usage.records += step->usage.records;
  usage.reply_bytes += step->usage.reply_bytes;
  measurement.visited += step->visited;
  measurement.op.after = step->next;
  const bool exceeded =
      usage.records > quota.most.records || usage.reply_bytes > quota.most.reply_bytes;
  return exceeded || measurement.visited >= options_.max_rows || !measurement.op.after;
}

void UsageMeter::Report(const std::string& name_space, const absl::Status& failure) {
  // Once for an outage, which concerns all of them.
  const Time now = clock_.Monotonic();
  if (now < next_report_) return;
  next_report_ = now + kPauseBetweenReports;
  Log(LogLevel::kWarn, "usage cannot be measured, the last measurement applies",
      {{"namespace", name_space}, {"error", failure.message()}});
}

}  // namespace idempotency::internal
