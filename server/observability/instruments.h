#ifndef IDEMPOTENCY_SERVER_OBSERVABILITY_INSTRUMENTS_H_
#define IDEMPOTENCY_SERVER_OBSERVABILITY_INSTRUMENTS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <variant>

#include "absl/status/status.h"

#include "server/observability/events.h"
#include "server/observability/operation_kind.h"
#include "server/store/verdict.h"

namespace idempotency::internal {

// The service's counters, gauges and histograms by subject. Each struct registers its own, with
// their names and help. The registry owns what they refer to, and outlives them. Thread-safe.

// One series for each value of an enum.
template <typename Metric, typename Enum, std::size_t kValues>
class SeriesOf {
 public:
  // `add` registers the series of a value, and returns it.
  template <typename Add>
  SeriesOf(const Enum (&values)[kValues], const Add& add) {
    for (const Enum value : values) series_[static_cast<std::size_t>(value)] = &add(value);
  }

  Metric& operator[](Enum value) const { return *series_[static_cast<std::size_t>(value)]; }

 private:
  std::array<Metric*, kValues> series_{};
};

using OperationCounters = SeriesOf<prometheus::Counter, OperationKind, kOperationKinds>;
using OperationHistograms = SeriesOf<prometheus::Histogram, OperationKind, kOperationKinds>;

// The operations as callers see them.
class RpcInstruments {
 public:
  explicit RpcInstruments(prometheus::Registry& registry);

  // A code that gRPC does not define counts as UNKNOWN.
  prometheus::Histogram& Latency(OperationKind kind, absl::StatusCode code);

 private:
  static constexpr std::size_t kCodes = 17;

  prometheus::Family<prometheus::Histogram>& latencies_;
  // Filled as combinations occur: most of them never do.
  std::array<std::array<std::atomic<prometheus::Histogram*>, kCodes>, kOperationKinds> latency_{};
};

// What Reserve decides.
struct ReservationInstruments {
  explicit ReservationInstruments(prometheus::Registry& registry);

  std::array<prometheus::Counter*, std::variant_size_v<Verdict>> verdicts{};
  prometheus::Counter& mismatches;
  OperationCounters lost;
  prometheus::Counter& lease_overruns;
  prometheus::Counter& take_overs;
  // Those that a sweep marks too.
  prometheus::Counter& marked_unknown;
  prometheus::Counter& retries_after_expiry;
  prometheus::Counter& repeated_grants;
  prometheus::Counter& relaxed_grants;
};

// The ports, and who may connect to them.
struct ListenerInstruments {
  explicit ListenerInstruments(prometheus::Registry& registry);

  SeriesOf<prometheus::Counter, ConnectionRefusal, std::size(kAllConnectionRefusals)>
      connections_refused;
  prometheus::Counter& handshakes_failed;
  SeriesOf<prometheus::Counter, CallRefusal, std::size(kAllCallRefusals)> calls_refused;
  prometheus::Counter& callers_refused;
  prometheus::Counter& administrators_refused;
  prometheus::Gauge& plaintext_exposed;
  // Without series while there is no TLS.
  prometheus::Family<prometheus::Gauge>& certificate_not_before;
  prometheus::Family<prometheus::Gauge>& certificate_not_after;
};

struct SessionInstruments {
  explicit SessionInstruments(prometheus::Registry& registry);

  prometheus::Gauge& open;
  prometheus::Counter& operations;
  prometheus::Family<prometheus::Counter>& frames;
  prometheus::Counter& frames_received;
  prometheus::Counter& frames_sent;
};

// Operations before the store, and the callers that wait.
struct QueueInstruments {
  explicit QueueInstruments(prometheus::Registry& registry);

  prometheus::Gauge& depth;
  // By reason.
  std::array<OperationCounters, std::size(kAllShedReasons)> shed;
  OperationCounters overdue;
  prometheus::Gauge& waiters;
  prometheus::Gauge& held_bytes;
};

struct StoreInstruments {
  explicit StoreInstruments(prometheus::Registry& registry);

  // By the catalogue's reason, or by the code of an error outside the catalogue.
  prometheus::Counter& Errors(OperationKind kind, const absl::Status& status) const;
  void SetConnections(const StoreConnections& count) const;

  OperationHistograms batch_operations;
  OperationHistograms latency;
  prometheus::Family<prometheus::Counter>& errors;
  prometheus::Gauge& up;
  prometheus::Gauge& gauges_read;
  prometheus::Gauge& oldest_reservation_age;
  prometheus::Gauge& unknown_records;
  prometheus::Gauge& sqlite_wal_bytes;
  prometheus::Gauge& redis_lost_servers;
  prometheus::Family<prometheus::Gauge>& connections;
};

struct SweepInstruments {
  explicit SweepInstruments(prometheus::Registry& registry);

  prometheus::Counter& removed;
  prometheus::Counter& unknown_ended;
  prometheus::Counter& errors;
  prometheus::Counter& elsewhere;
  prometheus::Gauge& interval;
  prometheus::Gauge& completed;
  prometheus::Histogram& step_latency;
};

// The files that are read again while the service runs.
struct FileInstruments {
  explicit FileInstruments(prometheus::Registry& registry);

  prometheus::Gauge& key_ring_up;
  prometheus::Counter& key_ring_errors;
  // Without series while there is no key ring.
  prometheus::Family<prometheus::Gauge>& key_ring_keys;
  prometheus::Gauge& config_valid;
};

// By namespaces of the configuration, so that there are few.
struct NamespaceInstruments {
  explicit NamespaceInstruments(prometheus::Registry& registry);

  prometheus::Family<prometheus::Counter>& admitted;
  prometheus::Family<prometheus::Counter>& exceeded;
  prometheus::Family<prometheus::Gauge>& records;
  prometheus::Family<prometheus::Gauge>& reply_bytes;
  prometheus::Family<prometheus::Gauge>& measured;
};

struct SpanInstruments {
  explicit SpanInstruments(prometheus::Registry& registry);

  prometheus::Counter& exported;
  prometheus::Counter& dropped;
};

// The version of this build, as a label.
void RegisterBuildInfo(prometheus::Registry& registry);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OBSERVABILITY_INSTRUMENTS_H_
