#ifndef IDEMPOTENCY_SERVER_OBSERVABILITY_METRICS_H_
#define IDEMPOTENCY_SERVER_OBSERVABILITY_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <variant>

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
  void CertificateLoaded(CertificateUse use, const CertificateValidity& validity) override;
  void SessionsChanged(std::size_t sessions) override;
  void FrameReceived(std::size_t operations) override;
  void FrameSent() override;
  void BatchDone(OperationKind kind, std::size_t operations, absl::Duration took) override;
  void QueueDepthChanged(std::size_t operations) override;
  void OperationShed(OperationKind kind) override;
  void OperationOverdue(OperationKind kind) override;
  void StoreFailed(OperationKind kind, const RecordId& record, const absl::Status& status) override;
  void ReservationLost(OperationKind kind) override;
  void LeaseOverrun() override;
  void TookOver() override;
  void RetriedAfterExpiry() override;
  void GrantRepeated() override;
  void GrantRelaxed() override;
  void MemoryHeldChanged(std::size_t bytes) override;
  void WaitersChanged(std::size_t waiters) override;
  void SweeperStarted(absl::Duration interval) override;
  void UnknownEnded(const absl::StatusOr<EndUnknownStep>& step) override;
  void SweepStepDone(const absl::StatusOr<SweepProgress>& step, absl::Duration took) override;
  void KeyRingRead(const absl::Status& status) override;
  void StoreInspected(const absl::StatusOr<StoreGauges>& gauges) override;
  void ConnectionsChanged(const StoreConnections& connections) override;
  void TenantAdmitted(absl::string_view name_space) override;
  void QuotaExceeded(absl::string_view name_space, QuotaLimit limit) override;
  void UsageMeasured(absl::string_view name_space, const NamespaceUsage& usage) override;
  void SpansExported(std::size_t spans) override {
    spans_exported_.Increment(static_cast<double>(spans));
  }
  void SpansDropped(std::size_t spans) override {
    spans_dropped_.Increment(static_cast<double>(spans));
  }
  void ConfigRead(bool valid) override { config_valid_.Set(valid ? 1 : 0); }
  void PlaintextServed(bool exposed) override { plaintext_exposed_.Set(exposed ? 1 : 0); }

 private:
  static constexpr std::size_t kVerdicts = std::variant_size_v<Verdict>;
  static constexpr std::size_t kCodes = 17;
  using OperationCounters = std::array<prometheus::Counter*, kOperationKinds>;
  using OperationHistograms = std::array<prometheus::Histogram*, kOperationKinds>;

  prometheus::Counter& NewCounter(const std::string& name, const std::string& help);
  prometheus::Gauge& NewGauge(const std::string& name, const std::string& help);
  OperationCounters NewOperationCounters(const std::string& name, const std::string& help);
  OperationHistograms NewOperationHistograms(
      const std::string& name, const std::string& help,
      const prometheus::Histogram::BucketBoundaries& buckets);
  prometheus::Histogram& RpcLatency(OperationKind kind, absl::StatusCode code);

  // Owns everything that the pointers below refer to. Shared with the exposer,
  // which may still answer a scrape when this is destroyed.
  const std::shared_ptr<prometheus::Registry> registry_;

  prometheus::Family<prometheus::Histogram>& rpc_latency_family_;
  // Filled as combinations occur: most of them never do.
  std::array<std::array<std::atomic<prometheus::Histogram*>, kCodes>, kOperationKinds>
      rpc_latency_{};
  std::array<prometheus::Counter*, kVerdicts> verdicts_{};
  prometheus::Counter& mismatches_;

  std::array<prometheus::Counter*, std::size(kAllConnectionRefusals)> connections_refused_{};
  std::array<prometheus::Counter*, std::size(kAllCallRefusals)> calls_refused_{};

  prometheus::Gauge& sessions_;
  prometheus::Counter& session_operations_;
  prometheus::Counter* frames_received_;
  prometheus::Counter* frames_sent_;

  OperationHistograms batch_operations_;
  OperationHistograms store_latency_;
  prometheus::Gauge& queued_;
  OperationCounters shed_;
  OperationCounters overdue_;
  prometheus::Family<prometheus::Counter>& store_errors_;
  OperationCounters lost_;
  prometheus::Counter& lease_overruns_;
  prometheus::Counter& take_overs_;
  prometheus::Counter& retries_after_expiry_;
  prometheus::Counter& repeated_grants_;
  prometheus::Counter& relaxed_grants_;
  prometheus::Gauge& waiters_;
  prometheus::Gauge& held_bytes_;

  prometheus::Counter& swept_;
  prometheus::Counter& marked_unknown_;
  prometheus::Counter& unknown_ended_;
  prometheus::Counter& sweep_errors_;
  prometheus::Counter& sweeps_elsewhere_;
  prometheus::Gauge& sweep_interval_;
  prometheus::Histogram& sweep_latency_;

  prometheus::Gauge& key_ring_up_;
  prometheus::Counter& key_ring_errors_;
  prometheus::Gauge& store_up_;
  prometheus::Gauge& oldest_reservation_age_;
  prometheus::Gauge& unknown_records_;
  prometheus::Counter& spans_exported_;
  prometheus::Counter& spans_dropped_;
  prometheus::Gauge& config_valid_;
  // By namespaces of the configuration, so that there are few.
  prometheus::Family<prometheus::Counter>& admitted_;
  prometheus::Family<prometheus::Counter>& exceeded_;
  prometheus::Family<prometheus::Gauge>& records_;
  prometheus::Family<prometheus::Gauge>& reply_bytes_;
  prometheus::Gauge& plaintext_exposed_;
  prometheus::Family<prometheus::Gauge>& connections_;
  // Without series while there is no TLS.
  prometheus::Family<prometheus::Gauge>& certificate_not_before_;
  prometheus::Family<prometheus::Gauge>& certificate_not_after_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OBSERVABILITY_METRICS_H_
