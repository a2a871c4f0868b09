#include "server/observability/instruments.h"

#include <limits>
#include <optional>
#include <string>

#include "grpc_idempotency/errors.h"
#include "server/observability/version.h"

namespace idempotency::internal {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

// From a call that is answered from memory to a caller that waits kMaxWait.
const Histogram::BucketBoundaries kLatencySeconds = {
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
// Up to limits::kMaxBatch.
const Histogram::BucketBoundaries kBatchSizes = {1, 2, 4, 8, 16, 32, 64, 128, 256};

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

Family<Counter>& Counters(Registry& registry, const std::string& name, const std::string& help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

Family<Gauge>& Gauges(Registry& registry, const std::string& name, const std::string& help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

Family<Histogram>& Histograms(Registry& registry, const std::string& name,
                              const std::string& help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

Counter& OneCounter(Registry& registry, const std::string& name, const std::string& help) {
  return Counters(registry, name, help).Add({});
}

Gauge& OneGauge(Registry& registry, const std::string& name, const std::string& help) {
  return Gauges(registry, name, help).Add({});
}

Counter& CallersRefused(Registry& registry, const std::string& service) {
  return Counters(registry, "idempotency_callers_refused_total",
                  "Calls refused since their caller is not known or not permitted, by service: "
                  "operations, or administration with the console.")
      .Add({{"service", service}});
}

OperationCounters CountersByMethod(Registry& registry, const std::string& name,
                                   const std::string& help) {
  Family<Counter>& family = Counters(registry, name, help);
  return {kAllOperationKinds,
          [&family](OperationKind kind) -> Counter& { return family.Add(MethodLabel(kind)); }};
}

OperationCounters ShedCounters(Registry& registry, ShedReason reason) {
  Family<Counter>& family =
      Counters(registry, "idempotency_operations_shed_total",
               "Operations refused with OVERLOADED: the queue or the memory was "
               "full, the share of a namespace for unread replies and waiting "
               "callers, or the operations of a session.");
  return {kAllOperationKinds, [&family, reason](OperationKind kind) -> Counter& {
            prometheus::Labels labels = MethodLabel(kind);
            labels["reason"] = std::string(ShedReasonName(reason));
            return family.Add(labels);
          }};
}

OperationHistograms HistogramsByMethod(Registry& registry, const std::string& name,
                                       const std::string& help,
                                       const Histogram::BucketBoundaries& buckets) {
  Family<Histogram>& family = Histograms(registry, name, help);
  return {kAllOperationKinds, [&family, &buckets](OperationKind kind) -> Histogram& {
            return family.Add(MethodLabel(kind), buckets);
          }};
}

// By the reasons for which a connection or a call is refused.
template <typename Refusal, std::size_t kRefusals>
SeriesOf<Counter, Refusal, kRefusals> CountersByReason(Registry& registry, const std::string& name,
                                                       const std::string& help,
                                                       const Refusal (&refusals)[kRefusals]) {
  Family<Counter>& family = Counters(registry, name, help);
  return {refusals, [&family](Refusal refusal) -> Counter& {
            return family.Add({{"reason", std::string(RefusalName(refusal))}});
          }};
}

}  // namespace

RpcInstruments::RpcInstruments(Registry& registry)
    : latencies_(Histograms(registry, "idempotency_rpc_duration_seconds",
                            "Time from the arrival of an operation to its answer.")) {
  // Dashboards show the usual case as 0 rather than as missing. The others are those of alerts:
  // increase() misses the first event of a series that begins with it.
  for (const OperationKind kind : kAllOperationKinds) {
    for (const absl::StatusCode code :
         {absl::StatusCode::kOk, absl::StatusCode::kUnavailable, absl::StatusCode::kInternal,
          absl::StatusCode::kUnknown, absl::StatusCode::kDataLoss,
          absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kPermissionDenied,
          absl::StatusCode::kUnauthenticated}) {
      Latency(kind, code);
    }
  }
}

Histogram& RpcInstruments::Latency(OperationKind kind, absl::StatusCode code) {
  auto number = static_cast<std::size_t>(code);
  if (number >= kCodes) number = static_cast<std::size_t>(absl::StatusCode::kUnknown);
  std::atomic<Histogram*>& slot = latency_[static_cast<std::size_t>(kind)][number];
  Histogram* histogram = slot.load(std::memory_order_acquire);
  if (histogram == nullptr) {
    prometheus::Labels labels = MethodLabel(kind);
    labels["code"] = absl::StatusCodeToString(static_cast<absl::StatusCode>(number));
    // Two threads that reach this point get the same one.
    histogram = &latencies_.Add(labels, kLatencySeconds);
    slot.store(histogram, std::memory_order_release);
  }
  return *histogram;
}

ReservationInstruments::ReservationInstruments(Registry& registry)
    : mismatches(OneCounter(registry, "idempotency_mismatches_total",
                            "Keys reused with a different request: client bugs.")),
      lost(CountersByMethod(registry, "idempotency_reservations_lost_total",
                            "Operations with a token that no longer holds its reservation.")),
      lease_overruns(
          OneCounter(registry, "idempotency_lease_overruns_total",
                     "Completions that arrived after their lease expired and were accepted.")),
      take_overs(OneCounter(registry, "idempotency_take_overs_total",
                            "Reservations granted over one whose lease had expired.")),
      marked_unknown(OneCounter(registry, "idempotency_marked_unknown_total",
                                "Records that became UNKNOWN: by a release, by a retry after the "
                                "lease had expired, or by a sweep.")),
      retries_after_expiry(OneCounter(registry, "idempotency_retries_after_expiry_total",
                                      "Reservations granted for a record that had expired.")),
      repeated_grants(
          OneCounter(registry, "idempotency_repeated_grants_total",
                     "Repeated Reserve calls that were answered with their existing grant.")),
      relaxed_grants(OneCounter(registry, "idempotency_relaxed_grants_total",
                                "Reservations that were answered before they were durable.")) {
  Family<Counter>& family =
      Counters(registry, "idempotency_verdicts_total", "Answers of Reserve, by verdict.");
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    verdicts[i] = &family.Add({{"verdict", std::string(kVerdictNames[i])}});
  }
}

ListenerInstruments::ListenerInstruments(Registry& registry)
    : connections_refused(CountersByReason(registry, "idempotency_connections_refused_total",
                                           "Connections closed instead of served, by reason.",
                                           kAllConnectionRefusals)),
      handshakes_failed(OneCounter(registry, "idempotency_handshakes_failed_total",
                                   "TLS handshakes of clients that failed.")),
      calls_refused(CountersByReason(registry, "idempotency_calls_refused_total",
                                     "Calls refused at their arrival, by reason.",
                                     kAllCallRefusals)),
      callers_refused(CallersRefused(registry, "operations")),
      administrators_refused(CallersRefused(registry, "administration")),
      plaintext_exposed(OneGauge(registry, "idempotency_plaintext_exposed",
                                 "1 if calls from other machines are accepted without TLS.")),
      certificate_not_before(Gauges(registry,
                                    "idempotency_certificate_not_before_timestamp_seconds",
                                    "Start of the validity of the certificate in the next gauge.")),
      certificate_not_after(
          Gauges(registry, "idempotency_certificate_not_after_timestamp_seconds",
                 "Expiry of the listener's certificates, the first of each file to expire.")) {}

SessionInstruments::SessionInstruments(Registry& registry)
    : open(OneGauge(registry, "idempotency_sessions", "Open session streams.")),
      operations(OneCounter(registry, "idempotency_session_operations_total",
                            "Operations received in frames of sessions.")),
      frames(Counters(registry, "idempotency_session_frames_total", "Frames of sessions.")),
      frames_received(frames.Add({{"direction", "received"}})),
      frames_sent(frames.Add({{"direction", "sent"}})) {}

QueueInstruments::QueueInstruments(Registry& registry)
    : depth(OneGauge(registry, "idempotency_queued_operations",
                     "Operations that wait for a store connection.")),
      shed{{ShedCounters(registry, ShedReason::kQueue),
            ShedCounters(registry, ShedReason::kReplies),
            ShedCounters(registry, ShedReason::kSession)}},
      overdue(CountersByMethod(registry, "idempotency_operations_overdue_total",
                               "Operations whose deadline passed in the queue.")),
      waiters(OneGauge(registry, "idempotency_waiters", "Calls that wait for a running attempt.")),
      held_bytes(OneGauge(registry, "idempotency_held_bytes",
                          "Memory held for callers: operations, waiting ones included, and answers "
                          "until they have been written. Bounded by --queue_mib.")) {}

StoreInstruments::StoreInstruments(Registry& registry)
    : batch_operations(HistogramsByMethod(registry, "idempotency_batch_operations",
                                          "Operations per store call.", kBatchSizes)),
      latency(HistogramsByMethod(registry, "idempotency_store_call_duration_seconds",
                                 "Duration of one store call.", kLatencySeconds)),
      errors(Counters(registry, "idempotency_store_errors_total",
                      "Operations that failed in the store, by reason.")),
      up(OneGauge(registry, "idempotency_store_up",
                  "1 if the store could commit at the last inspection, else 0.")),
      gauges_read(OneGauge(
          registry, "idempotency_store_gauges_read",
          "0 if the store could commit at the last inspection, but idempotency_unknown_records or "
          "idempotency_oldest_reservation_age_seconds could not be read and has an earlier value, "
          "or NaN; else 1.")),
      oldest_reservation_age(
          OneGauge(registry, "idempotency_oldest_reservation_age_seconds",
                   "Age of the oldest record under a live lease, since its reservation; NaN until "
                   "it was first read.")),
      unknown_records(
          OneGauge(registry, "idempotency_unknown_records",
                   "Records whose outcome is unknown, counted up to 1,000; NaN until they were "
                   "first read.")),
      sqlite_wal_bytes(OneGauge(registry, "idempotency_sqlite_wal_bytes",
                                "Size of the write-ahead log of the SQLite file; NaN with another "
                                "store, and until it was first read.")),
      redis_lost_servers(OneGauge(
          registry, "idempotency_redis_lost_servers",
          "Servers of a Redis Cluster that answer and lack data that they had: calls for their "
          "records are refused; NaN with another store.")),
      connections(Gauges(registry, "idempotency_store_connections",
                         "Connections to the store, by state.")) {
  // increase() misses the first error of a series that begins with it, and for some a single
  // one is an alert.
  for (const OperationKind kind : kAllOperationKinds) {
    prometheus::Labels labels = MethodLabel(kind);
    for (const Reason reason :
         {Reason::kStoreUnavailable, Reason::kRecordDamaged, Reason::kRecordIdCollision}) {
      labels["reason"] = std::string(ReasonName(reason));
      errors.Add(labels);
    }
  }
  // A fall to 0 while the store is not known would be followed by a rise, which is an alert. No
  // comparison with NaN is true.
  oldest_reservation_age.Set(std::numeric_limits<double>::quiet_NaN());
  unknown_records.Set(std::numeric_limits<double>::quiet_NaN());
  sqlite_wal_bytes.Set(std::numeric_limits<double>::quiet_NaN());
  redis_lost_servers.Set(std::numeric_limits<double>::quiet_NaN());
  gauges_read.Set(1);
  SetConnections({});
}

Counter& StoreInstruments::Errors(OperationKind kind, const absl::Status& status) const {
  prometheus::Labels labels = MethodLabel(kind);
  labels["reason"] = ReasonLabel(status);
  return errors.Add(labels);
}

void StoreInstruments::SetConnections(const StoreConnections& count) const {
  connections.Add({{"state", "in_use"}}).Set(count.in_use);
  connections.Add({{"state", "idle"}}).Set(count.idle);
  connections.Add({{"state", "broken"}}).Set(count.broken);
}

SweepInstruments::SweepInstruments(Registry& registry)
    : removed(OneCounter(registry, "idempotency_swept_records_total",
                         "Expired records that a sweep removed.")),
      unknown_ended(OneCounter(registry, "idempotency_unknown_ended_total",
                               "UNKNOWN records that reached the end of their unknown_life; their "
                               "keys stay refused.")),
      errors(OneCounter(registry, "idempotency_sweep_errors_total", "Sweeps that failed.")),
      elsewhere(OneCounter(registry, "idempotency_sweeps_elsewhere_total",
                           "Steps of a sweep that did nothing because another session "
                           "holds the lock of the sweep.")),
      interval(OneGauge(registry, "idempotency_sweep_interval_seconds",
                        "Time between the sweeps of this process; 0 if it does not sweep.")),
      completed(
          OneGauge(registry, "idempotency_sweep_completed_timestamp_seconds",
                   "When this process last ended a pass of the sweep over all records without "
                   "an error; 0 before the first one.")),
      step_latency(Histograms(registry, "idempotency_sweep_step_duration_seconds",
                              "Duration of one step of a sweep that did not fail.")
                       .Add({}, kLatencySeconds)) {}

FileInstruments::FileInstruments(Registry& registry)
    : key_ring_up(OneGauge(registry, "idempotency_keyring_up",
                           "0 if the key ring's file cannot be used and the previous ring stays "
                           "in use, else 1.")),
      key_ring_errors(OneCounter(registry, "idempotency_keyring_errors_total",
                                 "Times that the key ring's file became unusable.")),
      key_ring_keys(Gauges(registry, "idempotency_keyring_key_info",
                           "1 for each key of the key ring in use, by its id.")),
      config_valid(
          OneGauge(registry, "idempotency_config_valid",
                   "1 if the configuration file was valid when it was last read, and without one. "
                   "Otherwise an earlier one applies, or none.")) {
  // Without such a file there is nothing that could be unusable.
  key_ring_up.Set(1);
  config_valid.Set(1);
}

NamespaceInstruments::NamespaceInstruments(Registry& registry)
    : admitted(Counters(registry, "idempotency_namespace_operations_total",
                        "Reservations and reads by key that were admitted, by namespace of the "
                        "configuration file.")),
      exceeded(Counters(registry, "idempotency_quota_exceeded_total",
                        "Operations over a limit of their namespace, by limit.")),
      records(Gauges(registry, "idempotency_namespace_records",
                     "Live records of a namespace that has a quota, when they were last measured; "
                     "counted until a quota is exceeded.")),
      reply_bytes(Gauges(registry, "idempotency_namespace_reply_bytes",
                         "Bytes of their replies, measured at the same time.")),
      measured(Gauges(registry, "idempotency_namespace_measured_timestamp_seconds",
                      "When this process last ended a measurement of them.")) {}

SpanInstruments::SpanInstruments(Registry& registry)
    : exported(OneCounter(registry, "idempotency_spans_exported_total",
                          "Spans of traces that the collector took.")),
      dropped(OneCounter(registry, "idempotency_spans_dropped_total",
                         "Spans of traces that were lost: the queue was full, or the "
                         "collector did not take them.")) {}

void RegisterBuildInfo(Registry& registry) {
  Gauges(registry, "idempotency_build_info", "Always 1; the label is the version of this build.")
      .Add({{"version", std::string(Version())}})
      .Set(1);
}

}  // namespace idempotency::internal
