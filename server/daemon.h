#ifndef IDEMPOTENCY_SERVER_DAEMON_H_
#define IDEMPOTENCY_SERVER_DAEMON_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "server/batcher.h"
#include "server/command_line.h"
#include "server/deferred_store.h"
#include "server/grpc_listener.h"
#include "server/health.h"
#include "server/idempotency_service.h"
#include "server/logging_metrics.h"
#include "server/metrics_exposer.h"
#include "server/stop_request.h"
#include "server/store_monitor.h"
#include "server/sweeper.h"
#include "server/wait_room.h"

namespace idempotency {

// `idempotencyd serve`, without the process around it: owns every part, starts
// them in the order in which they stand below and stops them in the reverse
// order. Not thread-safe: one thread starts and destroys it.
class Daemon {
 public:
  // Returns once it serves; also when the store cannot be reached yet. Errors
  // say what to do, and nothing is left running: a TLS file, the store, or an
  // address that cannot be used.
  //
  // `stop` is asked, with what to do, if the store turns out to be unusable
  // later, when it could be reached at last. It must outlive the daemon.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const ServeOptions& options,
                                                       StopRequest* stop);
  // Says NOT_SERVING, stops accepting, lets running calls finish (up to the
  // drain timeout), then ends the sweeper and closes the store.
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Where it listens, with the real ports where 0 was asked for.
  const NetworkAddress& listen_address() const { return listener_->address(); }
  // nullptr: nowhere.
  const NetworkAddress* metrics_address() const;

 private:
  Daemon(const ServeOptions& options, StopRequest* stop);

  absl::Status StartParts();
  absl::StatusOr<std::unique_ptr<Store>> Open();
  void Inspected(const absl::StatusOr<StoreGauges>& gauges);

  const ServeOptions options_;
  StopRequest* const stop_;

  LoggingMetrics metrics_;
  // Of the opened store's pool. Touched only by whoever inspects the store:
  // the starting thread, then the monitor's.
  std::function<Metrics::Connections()> connections_;
  DeferredStore store_;
  std::unique_ptr<MetricsExposer> exposer_;
  std::optional<Sweeper> sweeper_;
  std::optional<Batcher> batcher_;
  std::optional<WaitRoom> wait_room_;
  std::optional<IdempotencyService> service_;
  std::unique_ptr<GrpcListener> listener_;
  std::optional<Health> health_;
  std::optional<StoreMonitor> monitor_;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_DAEMON_H_
