#include "server/observability/metrics.h"

#include <string_view>

#include "absl/strings/ascii.h"

#include "grpc_idempotency/errors.h"
#include "server/observability/version.h"

namespace idempotency::internal {
namespace {

// From a call that is answered from memory to a caller that waits kMaxWait.
const prometheus::Histogram::BucketBoundaries kLatencySeconds = {
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
// Up to limits::kMaxBatch.
const prometheus::Histogram::BucketBoundaries kBatchSizes = {1, 2, 4, 8, 16, 32, 64, 128, 256};

std::size_t Index(OperationKind kind) { return static_cast<std::size_t>(kind); }

prometheus::Labels MethodLabel(OperationKind kind) {
  return {{"method", std::string(OperationName(kind))}};
}

// The catalogue's reason, or the code of an error outside the catalogue.
std::string ReasonLabel(const absl::Status& status) {
  if (const std::optional<Reason> reason = ReasonOf(status); reason.has_value()) {
    return std::string(ReasonName(*reason));
  }
  return absl::StatusCodeToString(status.code());
}

prometheus::Family<prometheus::Counter>& Counters(prometheus::Registry& registry,
                                                  const std::string& name,
                                                  const std::string& help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Gauge>& Gauges(prometheus::Registry& registry,
                                              const std::string& name, const std::string& help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Histogram>& Histograms(prometheus::Registry& registry,
                                                      const std::string& name,
                                                      const std::string& help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

}  // namespace

Metrics::Metrics()
    : registry_(std::make_shared<prometheus::Registry>()),
      rpc_latency_family_(Histograms(*registry_, "idempotency_rpc_duration_seconds",
                                     "Time from the arrival of an operation to its answer.")),
      mismatches_(NewCounter("idempotency_mismatches_total",
                             "Keys reused with a different request: client bugs.")),
      sessions_(NewGauge("idempotency_sessions", "Open session streams.")),
      session_operations_(NewCounter("idempotency_session_operations_total",
                                     "Operations received in frames of sessions.")),
      batch_operations_(NewOperationHistograms("idempotency_batch_operations",
                                               "Operations per store call.", kBatchSizes)),
      store_latency_(NewOperationHistograms("idempotency_store_call_duration_seconds",
                                            "Duration of one store call.", kLatencySeconds)),
      queued_(NewGauge("idempotency_queued_operations",
                       "Operations that wait for a store connection.")),
      shed_(NewOperationCounters("idempotency_operations_shed_total",
                                 "Operations refused because the queue was full.")),
      overdue_(NewOperationCounters("idempotency_operations_overdue_total",
                                    "Operations whose deadline passed in the queue.")),
      store_errors_(Counters(*registry_, "idempotency_store_errors_total",
                             "Operations that failed in the store, by reason.")),
      lost_(NewOperationCounters("idempotency_reservations_lost_total",
                                 "Operations with a token that no longer holds its reservation.")),
      lease_overruns_(
          NewCounter("idempotency_lease_overruns_total",
                     "Completions that arrived after their lease expired and were accepted.")),
      take_overs_(NewCounter("idempotency_take_overs_total",
                             "Reservations granted over one whose lease had expired.")),
      retries_after_expiry_(NewCounter("idempotency_retries_after_expiry_total",
                                       "Reservations granted for a record that had expired.")),
      repeated_grants_(
          NewCounter("idempotency_repeated_grants_total",
                     "Repeated Reserve calls that were answered with their existing grant.")),
      relaxed_grants_(NewCounter("idempotency_relaxed_grants_total",
                                 "Reservations that were answered before they were durable.")),
      waiters_(NewGauge("idempotency_waiters", "Calls that wait for a running attempt.")),
      held_bytes_(
          NewGauge("idempotency_held_bytes",
                   "Memory held for callers: operations, waiting ones included, and answers "
                   "until they have been written. Bounded by --queue_mib.")),
      swept_(
          NewCounter("idempotency_swept_records_total", "Expired records that a sweep removed.")),
      marked_unknown_(NewCounter("idempotency_marked_unknown_total",
                                 "Expired reservations that a sweep marked UNKNOWN.")),
      unknown_ended_(NewCounter("idempotency_unknown_ended_total",
                                "UNKNOWN records that reached the end of their unknown_life; their "
                                "keys stay refused.")),
      sweep_errors_(NewCounter("idempotency_sweep_errors_total", "Sweeps that failed.")),
      sweeps_elsewhere_(NewCounter("idempotency_sweeps_elsewhere_total",
                                   "Sweeps that ended because another session holds the lock of "
                                   "the sweep.")),
      sweep_interval_(NewGauge("idempotency_sweep_interval_seconds",
                               "Time between the sweeps of this process; 0 if it does not sweep.")),
      sweep_latency_(Histograms(*registry_, "idempotency_sweep_step_duration_seconds",
                                "Duration of one step of a sweep.")
                         .Add({}, kLatencySeconds)),
      key_ring_up_(NewGauge("idempotency_keyring_up",
                            "0 if the key ring's file cannot be used and the previous ring stays "
                            "in use, else 1.")),
      key_ring_errors_(NewCounter("idempotency_keyring_errors_total",
                                  "Times that the key ring's file became unusable.")),
      store_up_(NewGauge("idempotency_store_up",
                         "1 if the store could commit at the last inspection, else 0.")),
      oldest_reservation_age_(
          NewGauge("idempotency_oldest_reservation_age_seconds",
                   "Age of the oldest record under a live lease, since its reservation.")),
      unknown_records_(NewGauge("idempotency_unknown_records",
                                "Records whose outcome is unknown, counted up to 1,000.")),
      spans_exported_(NewCounter("idempotency_spans_exported_total",
                                 "Spans of traces that the collector took.")),
      spans_dropped_(NewCounter("idempotency_spans_dropped_total",
                                "Spans of traces that were lost: the queue was full, or the "
                                "collector did not take them.")),
      config_valid_(
          NewGauge("idempotency_config_valid",
                   "1 if the configuration file was valid when it was last read, and without one. "
                   "Otherwise an earlier one applies, or none.")),
      admitted_(Counters(*registry_, "idempotency_namespace_operations_total",
                         "Reservations and reads by key that were admitted, by namespace of the "
                         "configuration file.")),
      exceeded_(Counters(*registry_, "idempotency_quota_exceeded_total",
                         "Operations over a limit of their namespace, by limit.")),
      records_(Gauges(*registry_, "idempotency_namespace_records",
                      "Live records of a namespace that has a quota, when they were last measured; "
                      "counted until a quota is exceeded.")),
      reply_bytes_(Gauges(*registry_, "idempotency_namespace_reply_bytes",
                          "Bytes of their replies, measured at the same time.")),
      plaintext_exposed_(NewGauge("idempotency_plaintext_exposed",
                                  "1 if calls from other machines are accepted without TLS.")),
      connections_(Gauges(*registry_, "idempotency_store_connections",
                          "Connections to the store, by state.")),
      certificate_not_before_(
          Gauges(*registry_, "idempotency_certificate_not_before_timestamp_seconds",
                 "Start of the validity of the certificate in the next gauge.")),
      certificate_not_after_(
          Gauges(*registry_, "idempotency_certificate_not_after_timestamp_seconds",
                 "Expiry of the listener's certificates, the first of each file to expire.")) {
  prometheus::Family<prometheus::Counter>& verdicts =
      Counters(*registry_, "idempotency_verdicts_total", "Answers of Reserve, by verdict.");
  prometheus::Family<prometheus::Counter>& refused =
      Counters(*registry_, "idempotency_connections_refused_total",
               "Connections closed instead of served, by reason.");
  for (const ConnectionRefusal refusal : kAllConnectionRefusals) {
    connections_refused_[static_cast<std::size_t>(refusal)] =
        &refused.Add({{"reason", std::string(RefusalName(refusal))}});
  }
  prometheus::Family<prometheus::Counter>& refused_calls = Counters(
      *registry_, "idempotency_calls_refused_total", "Calls refused at their arrival, by reason.");
  for (const CallRefusal refusal : kAllCallRefusals) {
    calls_refused_[static_cast<std::size_t>(refusal)] =
        &refused_calls.Add({{"reason", std::string(RefusalName(refusal))}});
  }
  prometheus::Family<prometheus::Counter>& frames =
      Counters(*registry_, "idempotency_session_frames_total", "Frames of sessions.");
  frames_received_ = &frames.Add({{"direction", "received"}});
  frames_sent_ = &frames.Add({{"direction", "sent"}});
  for (std::size_t i = 0; i < kVerdicts; ++i) {
    verdicts_[i] = &verdicts.Add({{"verdict", std::string(kVerdictNames[i])}});
  }
  Gauges(*registry_, "idempotency_build_info", "Always 1; the label is the version of this build.")
      .Add({{"version", std::string(Version())}})
      .Set(1);
  // Without such a file there is nothing that could be unusable.
  key_ring_up_.Set(1);
  config_valid_.Set(1);
  // Dashboards show the usual case as 0 rather than as missing.
  for (const OperationKind kind : kAllOperationKinds) {
    RpcLatency(kind, absl::StatusCode::kOk);
    prometheus::Labels labels = MethodLabel(kind);
    // increase() misses the first error of a series that begins with it, and for some a single
    // one is an alert.
    for (const Reason reason :
         {Reason::kStoreUnavailable, Reason::kRecordDamaged, Reason::kRecordIdCollision}) {
      labels["reason"] = std::string(ReasonName(reason));
      store_errors_.Add(labels);
    }
  }
  ConnectionsChanged({});
}

prometheus::Counter& Metrics::NewCounter(const std::string& name, const std::string& help) {
  return Counters(*registry_, name, help).Add({});
}

prometheus::Gauge& Metrics::NewGauge(const std::string& name, const std::string& help) {
  return Gauges(*registry_, name, help).Add({});
}

Metrics::OperationCounters Metrics::NewOperationCounters(const std::string& name,
                                                         const std::string& help) {
  prometheus::Family<prometheus::Counter>& family = Counters(*registry_, name, help);
  OperationCounters counters{};
  for (const OperationKind kind : kAllOperationKinds) {
    counters[Index(kind)] = &family.Add(MethodLabel(kind));
  }
  return counters;
}

Metrics::OperationHistograms Metrics::NewOperationHistograms(
    const std::string& name, const std::string& help,
    const prometheus::Histogram::BucketBoundaries& buckets) {
  prometheus::Family<prometheus::Histogram>& family = Histograms(*registry_, name, help);
  OperationHistograms histograms{};
  for (const OperationKind kind : kAllOperationKinds) {
    histograms[Index(kind)] = &family.Add(MethodLabel(kind), buckets);
  }
  return histograms;
}

prometheus::Histogram& Metrics::RpcLatency(OperationKind kind, absl::StatusCode code) {
  // A code that gRPC does not define counts as UNKNOWN.
  auto number = static_cast<std::size_t>(code);
  if (number >= kCodes) number = static_cast<std::size_t>(absl::StatusCode::kUnknown);
  std::atomic<prometheus::Histogram*>& slot = rpc_latency_[Index(kind)][number];
  prometheus::Histogram* histogram = slot.load(std::memory_order_acquire);
  if (histogram == nullptr) {
    prometheus::Labels labels = MethodLabel(kind);
    labels["code"] = absl::StatusCodeToString(static_cast<absl::StatusCode>(number));
    // Two threads that reach this point get the same one.
    histogram = &rpc_latency_family_.Add(labels, kLatencySeconds);
    slot.store(histogram, std::memory_order_release);
  }
  return *histogram;
}

void Metrics::RpcFinished(OperationKind kind, const absl::Status& status, absl::Duration latency) {
  RpcLatency(kind, status.code()).Observe(absl::ToDoubleSeconds(latency));
}

void Metrics::VerdictGiven(const Verdict& verdict) { verdicts_[verdict.index()]->Increment(); }

void Metrics::MismatchSeen(std::string_view, std::string_view, const RecordId&) {
  mismatches_.Increment();
}

void Metrics::ConnectionRefused(ConnectionRefusal refusal) {
  connections_refused_[static_cast<std::size_t>(refusal)]->Increment();
}

void Metrics::CallRefused(CallRefusal refusal) {
  calls_refused_[static_cast<std::size_t>(refusal)]->Increment();
}

void Metrics::CertificateLoaded(CertificateUse use, const CertificateValidity& validity) {
  const prometheus::Labels labels = {{"certificate", std::string(CertificateUseName(use))}};
  certificate_not_before_.Add(labels).Set(
      absl::ToDoubleSeconds(validity.not_before - absl::UnixEpoch()));
  certificate_not_after_.Add(labels).Set(
      absl::ToDoubleSeconds(validity.not_after - absl::UnixEpoch()));
}

void Metrics::SessionsChanged(std::size_t sessions) {
  sessions_.Set(static_cast<double>(sessions));
}

void Metrics::FrameReceived(std::size_t operations) {
  frames_received_->Increment();
  session_operations_.Increment(static_cast<double>(operations));
}

void Metrics::FrameSent() { frames_sent_->Increment(); }

void Metrics::BatchDone(OperationKind kind, std::size_t operations, absl::Duration took) {
  batch_operations_[Index(kind)]->Observe(static_cast<double>(operations));
  store_latency_[Index(kind)]->Observe(absl::ToDoubleSeconds(took));
}

void Metrics::QueueDepthChanged(std::size_t operations) {
  queued_.Set(static_cast<double>(operations));
}

void Metrics::OperationShed(OperationKind kind) { shed_[Index(kind)]->Increment(); }

void Metrics::OperationOverdue(OperationKind kind) { overdue_[Index(kind)]->Increment(); }

void Metrics::StoreFailed(OperationKind kind, const RecordId& /*record*/,
                          const absl::Status& status) {
  prometheus::Labels labels = MethodLabel(kind);
  labels["reason"] = ReasonLabel(status);
  store_errors_.Add(labels).Increment();
}

void Metrics::ReservationLost(OperationKind kind) { lost_[Index(kind)]->Increment(); }

void Metrics::LeaseOverrun() { lease_overruns_.Increment(); }

void Metrics::TookOver() { take_overs_.Increment(); }

void Metrics::RetriedAfterExpiry() { retries_after_expiry_.Increment(); }

void Metrics::GrantRepeated() { repeated_grants_.Increment(); }

void Metrics::GrantRelaxed() { relaxed_grants_.Increment(); }

void Metrics::MemoryHeldChanged(std::size_t bytes) { held_bytes_.Set(static_cast<double>(bytes)); }
void Metrics::WaitersChanged(std::size_t waiters) { waiters_.Set(static_cast<double>(waiters)); }

void Metrics::SweeperStarted(absl::Duration interval) {
  sweep_interval_.Set(absl::ToDoubleSeconds(interval));
}

void Metrics::UnknownEnded(const absl::StatusOr<EndUnknownStep>& step) {
  if (step.ok()) {
    unknown_ended_.Increment(static_cast<double>(step->ended));
  } else {
    sweep_errors_.Increment();
  }
}

void Metrics::SweepStepDone(const absl::StatusOr<SweepProgress>& step, absl::Duration took) {
  if (step.ok() && step->elsewhere) {
    // Not a step: nothing was done.
    sweeps_elsewhere_.Increment();
    return;
  }
  sweep_latency_.Observe(absl::ToDoubleSeconds(took));
  if (!step.ok()) {
    sweep_errors_.Increment();
    return;
  }
  swept_.Increment(static_cast<double>(step->removed));
  marked_unknown_.Increment(static_cast<double>(step->marked_unknown));
}

void Metrics::KeyRingRead(const absl::Status& status) {
  key_ring_up_.Set(status.ok() ? 1 : 0);
  if (!status.ok()) key_ring_errors_.Increment();
}

void Metrics::StoreInspected(const absl::StatusOr<StoreGauges>& gauges) {
  store_up_.Set(gauges.ok() ? 1 : 0);
  // The last known values stay while the store is unavailable.
  if (!gauges.ok()) return;
  oldest_reservation_age_.Set(absl::ToDoubleSeconds(gauges->oldest_reserved_age));
  unknown_records_.Set(static_cast<double>(gauges->unknown_records));
}

void Metrics::ConnectionsChanged(const StoreConnections& connections) {
  connections_.Add({{"state", "in_use"}}).Set(connections.in_use);
  connections_.Add({{"state", "idle"}}).Set(connections.idle);
  connections_.Add({{"state", "broken"}}).Set(connections.broken);
}

void Metrics::TenantAdmitted(absl::string_view name_space) {
  admitted_.Add({{"namespace", std::string(name_space)}}).Increment();
}

void Metrics::UsageMeasured(absl::string_view name_space, const NamespaceUsage& usage) {
  const prometheus::Labels labels = {{"namespace", std::string(name_space)}};
  records_.Add(labels).Set(static_cast<double>(usage.records));
  reply_bytes_.Add(labels).Set(static_cast<double>(usage.reply_bytes));
}

void Metrics::QuotaExceeded(absl::string_view name_space, QuotaLimit limit) {
  exceeded_
      .Add({{"namespace", std::string(name_space)}, {"limit", std::string(QuotaLimitName(limit))}})
      .Increment();
}

}  // namespace idempotency::internal
