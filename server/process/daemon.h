#ifndef IDEMPOTENCY_SERVER_PROCESS_DAEMON_H_
#define IDEMPOTENCY_SERVER_PROCESS_DAEMON_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "server/access/access_control.h"
#include "server/config/config_watcher.h"
#include "server/console/console.h"
#include "server/console/http_listener.h"
#include "server/observability/grpc_log.h"
#include "server/process/command_line.h"
#include "server/process/further_service.h"
#include "server/process/grpc_listener.h"
#include "server/process/listener_credentials.h"
#include "server/process/listening_sockets.h"
#include "server/process/logging_metrics.h"
#include "server/process/metrics_exposer.h"
#include "server/process/stop_request.h"
#include "server/service/health.h"
#include "server/service/service_stack.h"
#include "server/service/store_monitor.h"
#include "tracing/otlp_exporter.h"

namespace idempotency::internal {

// `idempotencyd serve`, without the process around it: owns every part, starts
// them in the order below and stops them in the reverse order. Not thread-safe:
// one thread starts and destroys it.
class Daemon {
 public:
  // Returns once it serves; also when the store cannot be reached yet. An error
  // contains what to do, and leaves nothing running: a TLS file, the store, or
  // an address that cannot be used.
  //
  // `stop` is requested, with what to do, if the store proves unusable later,
  // once it can be reached. It must outlive the daemon.
  //
  // `ext_proc` is the service of ServeOptions::ext_proc.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const ServeOptions& options,
                                                       StopRequest* stop,
                                                       FurtherServiceKind ext_proc = {});
  // Reports NOT_SERVING, stops accepting, lets running calls finish (up to the
  // drain timeout), then ends the sweeper and closes the store.
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // The listen address, with the real ports in place of 0.
  const NetworkAddress& listen_address() const { return listener_->address(); }
  // nullptr: no metrics.
  const NetworkAddress* metrics_address() const;
  // nullptr: no console.
  const NetworkAddress* console_address() const;
  // nullptr: no external processor.
  const NetworkAddress* ext_proc_address() const;

 private:
  Daemon(const ServeOptions& options, StopRequest* stop, FurtherServiceKind ext_proc);

  absl::Status StartParts();
  // Applies the configuration file, before a call can arrive.
  absl::Status LoadConfiguration();
  absl::Status StartTracing();
  absl::Status StartService();
  absl::Status StartMetrics();
  absl::Status StartConsole();
  absl::Status MakeExtProc();
  absl::Status ConfigureExtProc(const LoadedConfig& config);
  void WatchConfig();
  absl::Status Listen();
  absl::Status ListenForExtProc();
  // Counts and logs the handshakes of both ports that fail.
  void ReportHandshakes();
  // The connections of both ports that were accepted just before.
  std::string RecentPeers() const;
  // Health follows the store from here on.
  void WatchStore();
  void Inspected(const absl::Status& store);

  const ServeOptions options_;
  StopRequest* const stop_;
  const FurtherServiceKind ext_proc_kind_;

  LoggingMetrics metrics_;
  AccessControl access_;
  Tenants tenants_{metrics_};
  // The configuration file as it was read at the start, if there is one.
  std::optional<LoadedConfig> config_;
  std::unique_ptr<ListenerCredentials> credentials_;
  // Null: no spans are exported.
  std::unique_ptr<OtlpExporter> tracer_;
  std::unique_ptr<ServiceStack> stack_;
  std::unique_ptr<MetricsExposer> exposer_;
  // If there is a console.
  std::optional<Console> console_;
  std::optional<ListeningSockets> console_sockets_;
  std::unique_ptr<HttpListener> console_listener_;
  // If there is an external processor. Before its operations end.
  std::unique_ptr<FurtherService> ext_proc_;
  std::unique_ptr<GrpcListener> ext_proc_listener_;
  std::unique_ptr<GrpcListener> listener_;
  // With TLS.
  std::optional<FailedHandshakeReports> failed_handshakes_;
  // If there is a configuration. It stops before what it configures.
  std::unique_ptr<ConfigWatcher> config_watcher_;
  std::optional<Health> health_;
  std::unique_ptr<StoreMonitor> monitor_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_DAEMON_H_
