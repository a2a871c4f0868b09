#ifndef IDEMPOTENCY_SERVER_OBSERVABILITY_METRICS_H_
#define IDEMPOTENCY_SERVER_OBSERVABILITY_METRICS_H_

#include <prometheus/registry.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "core/mutex.h"
#include "server/observability/instruments.h"
#include "server/observability/observer.h"

namespace idempotency::internal {

// The service's metrics for Prometheus. Their names, types and labels are a
// contract with dashboards and alerts, checked by testdata/metrics.golden. A
// label has only values of a fixed set: never a key, a scope or anything else
// that a caller chose.
//
// Thread-safe.
class Metrics : public Observer {
 public:
  Metrics();

  const std::shared_ptr<prometheus::Registry>& registry() const { return registry_; }

  void RpcFinished(OperationKind kind, const absl::Status& status, absl::Duration latency) override;
  void VerdictGiven(const Verdict& verdict) override;
  void MismatchSeen(std::string_view name_space, std::string_view operation,
                    const RecordId& id) override;
  void ConnectionRefused(ConnectionRefusal refusal) override;
  void CallRefused(CallRefusal refusal) override;
  void CallerRefused(const RefusedCaller& caller) override;
  void CertificateLoaded(CertificateUse use, const CertificateValidity& validity) override;
  void SessionsChanged(std::size_t sessions) override;
  void FrameReceived(std::size_t operations) override;
  void FrameSent() override;
  void BatchDone(OperationKind kind, std::size_t operations, absl::Duration took) override;
  void QueueDepthChanged(std::size_t operations) override;
  void OperationShed(OperationKind kind, ShedReason reason) override;
  void OperationOverdue(OperationKind kind) override;
  void StoreFailed(OperationKind kind, const RecordId& record, const absl::Status& status) override;
  void ReservationLost(OperationKind kind) override;
  void LeaseOverrun() override;
  void TookOver() override;
  void MarkedUnknown() override;
  void RetriedAfterExpiry() override;
  void GrantRepeated() override;
  void GrantRelaxed() override;
  void MemoryHeldChanged(std::size_t bytes) override;
  void WaitersChanged(std::size_t waiters) override;
  void SweeperStarted(absl::Duration interval) override;
  void UnknownEnded(const absl::StatusOr<EndUnknownStep>& step) override;
  void SweepStepDone(const absl::StatusOr<SweepProgress>& step, absl::Duration took) override;
  void SweepFailed() override;
  void SweepCompleted() override;
  void KeyRingRead(const absl::Status& status) override;
  void KeyRingUsed(const std::vector<std::uint32_t>& key_ids) override ABSL_LOCKS_EXCLUDED(mutex_);
  void StoreInspected(const absl::StatusOr<StoreGauges>& gauges) override;
  void ConnectionsChanged(const StoreConnections& connections) override;
  void TenantAdmitted(absl::string_view name_space) override;
  void QuotaExceeded(absl::string_view name_space, QuotaLimit limit) override;
  void UsageMeasured(absl::string_view name_space, const NamespaceUsage& usage) override;
  void SpansExported(std::size_t spans) override {
    spans_.exported.Increment(static_cast<double>(spans));
  }
  void SpansDropped(std::size_t spans) override {
    spans_.dropped.Increment(static_cast<double>(spans));
  }
  void ConfigRead(bool valid) override { files_.config_valid.Set(valid ? 1 : 0); }
  // A TLS handshake of the process failed. Not of an Observer: only the process notices it.
  void HandshakeFailed() { listeners_.handshakes_failed.Increment(); }
  void PlaintextServed(bool exposed) override { listeners_.plaintext_exposed.Set(exposed ? 1 : 0); }

 private:
  // Shared with the exposer, which may still answer a scrape when this is destroyed.
  const std::shared_ptr<prometheus::Registry> registry_;

  RpcInstruments rpcs_{*registry_};
  const ReservationInstruments reservations_{*registry_};
  const ListenerInstruments listeners_{*registry_};
  const SessionInstruments sessions_{*registry_};
  const QueueInstruments queue_{*registry_};
  const StoreInstruments store_{*registry_};
  const SweepInstruments sweeps_{*registry_};
  const FileInstruments files_{*registry_};
  const NamespaceInstruments namespaces_{*registry_};
  const SpanInstruments spans_{*registry_};

  Mutex mutex_;
  // The series of the keys in use, by their ids.
  std::map<std::uint32_t, prometheus::Gauge*> key_ring_keys_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OBSERVABILITY_METRICS_H_
