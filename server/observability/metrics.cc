#include "server/observability/metrics.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace idempotency::internal {

Metrics::Metrics() : registry_(std::make_shared<prometheus::Registry>()) {
  RegisterBuildInfo(*registry_);
}

void Metrics::RpcFinished(OperationKind kind, const absl::Status& status, absl::Duration latency) {
  rpcs_.Latency(kind, status.code()).Observe(absl::ToDoubleSeconds(latency));
}

void Metrics::VerdictGiven(const Verdict& verdict) {
  reservations_.verdicts[verdict.index()]->Increment();
}

void Metrics::MismatchSeen(std::string_view, std::string_view, const RecordId&) {
  reservations_.mismatches.Increment();
}

void Metrics::ConnectionRefused(ConnectionRefusal refusal) {
  listeners_.connections_refused[refusal].Increment();
}

void Metrics::CallRefused(CallRefusal refusal) { listeners_.calls_refused[refusal].Increment(); }

void Metrics::CallerRefused(const RefusedCaller& caller) {
  (caller.is_administration ? listeners_.administrators_refused : listeners_.callers_refused)
      .Increment();
}

void Metrics::CertificateLoaded(CertificateUse use, const CertificateValidity& validity) {
  const prometheus::Labels labels = {{"certificate", std::string(CertificateUseName(use))}};
  listeners_.certificate_not_before.Add(labels).Set(
      absl::ToDoubleSeconds(validity.not_before - absl::UnixEpoch()));
  listeners_.certificate_not_after.Add(labels).Set(
      absl::ToDoubleSeconds(validity.not_after - absl::UnixEpoch()));
}

void Metrics::SessionsChanged(std::size_t sessions) {
  sessions_.open.Set(static_cast<double>(sessions));
}

void Metrics::FrameReceived(std::size_t operations) {
  sessions_.frames_received.Increment();
  sessions_.operations.Increment(static_cast<double>(operations));
}

void Metrics::FrameSent() { sessions_.frames_sent.Increment(); }

void Metrics::BatchDone(OperationKind kind, std::size_t operations, absl::Duration took) {
  store_.batch_operations[kind].Observe(static_cast<double>(operations));
  store_.latency[kind].Observe(absl::ToDoubleSeconds(took));
}

void Metrics::QueueDepthChanged(std::size_t operations) {
  queue_.depth.Set(static_cast<double>(operations));
}

void Metrics::OperationShed(OperationKind kind, ShedReason reason) {
  queue_.shed[static_cast<std::size_t>(reason)][kind].Increment();
}

void Metrics::OperationOverdue(OperationKind kind) { queue_.overdue[kind].Increment(); }

void Metrics::StoreFailed(OperationKind kind, const RecordId& /*record*/,
                          const absl::Status& status) {
  store_.Errors(kind, status).Increment();
}

void Metrics::ReservationLost(OperationKind kind) { reservations_.lost[kind].Increment(); }

void Metrics::LeaseOverrun() { reservations_.lease_overruns.Increment(); }

void Metrics::TookOver() { reservations_.take_overs.Increment(); }

void Metrics::MarkedUnknown() { reservations_.marked_unknown.Increment(); }

void Metrics::RetriedAfterExpiry() { reservations_.retries_after_expiry.Increment(); }

void Metrics::GrantRepeated() { reservations_.repeated_grants.Increment(); }

void Metrics::GrantRelaxed() { reservations_.relaxed_grants.Increment(); }

void Metrics::MemoryHeldChanged(std::size_t bytes) {
  queue_.held_bytes.Set(static_cast<double>(bytes));
}
void Metrics::WaitersChanged(std::size_t waiters) {
  queue_.waiters.Set(static_cast<double>(waiters));
}

void Metrics::SweeperStarted(absl::Duration interval) {
  sweeps_.interval.Set(absl::ToDoubleSeconds(interval));
}

void Metrics::UnknownEnded(const absl::StatusOr<EndUnknownStep>& step) {
  if (step.ok()) sweeps_.unknown_ended.Increment(static_cast<double>(step->ended));
}

void Metrics::SweepStepDone(const absl::StatusOr<SweepProgress>& step, absl::Duration took) {
  // Not a step if nothing was done.
  if (!step.ok()) return;
  if (step->elsewhere) {
    sweeps_.elsewhere.Increment();
    return;
  }
  sweeps_.step_latency.Observe(absl::ToDoubleSeconds(took));
  sweeps_.removed.Increment(static_cast<double>(step->removed));
  reservations_.marked_unknown.Increment(static_cast<double>(step->marked_unknown));
}

void Metrics::SweepFailed() { sweeps_.errors.Increment(); }

void Metrics::SweepCompleted() { sweeps_.completed.SetToCurrentTime(); }

void Metrics::KeyRingRead(const absl::Status& status) {
  files_.key_ring_up.Set(status.ok() ? 1 : 0);
  if (!status.ok()) files_.key_ring_errors.Increment();
}

void Metrics::KeyRingUsed(const std::vector<std::uint32_t>& key_ids) {
  const MutexLock lock(mutex_);
  std::map<std::uint32_t, prometheus::Gauge*> before = std::exchange(key_ring_keys_, {});
  for (const std::uint32_t id : key_ids) {
    before.erase(id);
    prometheus::Gauge& gauge = files_.key_ring_keys.Add({{"key_id", std::to_string(id)}});
    gauge.Set(1);
    key_ring_keys_.emplace(id, &gauge);
  }
  for (const auto& [id, gauge] : before) files_.key_ring_keys.Remove(gauge);
}

void Metrics::StoreInspected(const absl::StatusOr<StoreGauges>& gauges) {
  store_.up.Set(gauges.ok() ? 1 : 0);
  store_.gauges_read.Set(!gauges.ok() || gauges->read ? 1 : 0);
  // The last known values stay while the store is unavailable.
  if (!gauges.ok()) return;
  if (gauges->oldest_reserved_age) {
    store_.oldest_reservation_age.Set(absl::ToDoubleSeconds(*gauges->oldest_reserved_age));
  }
  if (gauges->unknown_records) {
    store_.unknown_records.Set(static_cast<double>(*gauges->unknown_records));
  }
  if (gauges->sqlite_wal_bytes) {
    store_.sqlite_wal_bytes.Set(static_cast<double>(*gauges->sqlite_wal_bytes));
  }
  if (gauges->redis_lost_servers) {
    store_.redis_lost_servers.Set(static_cast<double>(*gauges->redis_lost_servers));
  }
}

void Metrics::ConnectionsChanged(const StoreConnections& connections) {
  store_.SetConnections(connections);
}

void Metrics::TenantAdmitted(absl::string_view name_space) {
  namespaces_.admitted.Add({{"namespace", std::string(name_space)}}).Increment();
}

void Metrics::UsageMeasured(absl::string_view name_space, const NamespaceUsage& usage) {
  const prometheus::Labels labels = {{"namespace", std::string(name_space)}};
  namespaces_.records.Add(labels).Set(static_cast<double>(usage.records));
  namespaces_.reply_bytes.Add(labels).Set(static_cast<double>(usage.reply_bytes));
  namespaces_.measured.Add(labels).SetToCurrentTime();
}

void Metrics::QuotaExceeded(absl::string_view name_space, QuotaLimit limit) {
  namespaces_.exceeded
      .Add({{"namespace", std::string(name_space)}, {"limit", std::string(QuotaLimitName(limit))}})
      .Increment();
}

}  // namespace idempotency::internal
