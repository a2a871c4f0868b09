#ifndef IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_SERVE_OPTIONS_H_
#define IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_SERVE_OPTIONS_H_

#include <optional>
#include <string>

#include "absl/time/time.h"

#include "grpc_idempotency/embedded/service_options.h"
#include "server/observability/log.h"
#include "server/process/listener_options.h"
#include "server/process/network_address.h"
#include "server/sealing/sealing_options.h"
#include "server/service/store_address.h"

namespace idempotency::internal {

// PEM files of the listener. All empty: no TLS.
struct ListenerTlsFiles {
  std::string certificate;
  std::string key;
  // If set, clients must present a certificate signed by it.
  std::string client_ca;
};

// The options of `idempotencyd serve`, validated.
struct ServeOptions : ServiceOptions {
  NetworkAddress listen;
  StoreAddress store;
  // nullopt: no metrics.
  std::optional<NetworkAddress> metrics;
  // nullopt: no console.
  std::optional<NetworkAddress> console;
  // nullopt: no external processor.
  std::optional<NetworkAddress> ext_proc;
  absl::Duration drain_timeout = absl::Seconds(25);
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
  ListenerTlsFiles tls;
  // The configuration file; empty: none.
  std::string config;
  // Accept calls from other machines without TLS.
  bool allow_plaintext = false;
  SealingOptions sealing;
  // Answers reads only.
  bool read_only = false;
  // The collector of spans, as gRPC writes targets; empty: no spans are exported.
  std::string otlp_endpoint;
  // PEM of the authorities of its certificate; empty: those that the system trusts.
  std::string otlp_ca;
  bool otlp_plaintext = false;
  // A crash may leave a core dump, with callers' data and secrets in it.
  bool core_dumps = false;
  // 0: as many as the descriptors allow.
  int max_connections = 0;
  ListenerOptions listener;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_SERVE_OPTIONS_H_
