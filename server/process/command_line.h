#ifndef IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_H_
#define IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

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

// The options of `idempotencyd serve-testing`, validated. It has no address: it serves on loopback.
struct ServeTestingOptions {
  // 0: a free one.
  std::uint16_t port = 0;
  // When to end, beside SIGTERM.
  bool exit_with_parent = true;
  bool exit_with_stdin = false;
  LogLevel log_level = LogLevel::kWarn;
};

// The options of `idempotencyd migrate`, validated.
struct MigrateOptions {
  StoreAddress store;
  // The target version; nullopt: the newest. One lower than the schema's is a
  // downgrade.
  std::optional<int> to;
  // Only reports the state of the schema.
  bool status = false;
  // Confirms a downgrade.
  bool yes = false;
  // A role that does not own the schema and gets the privileges to serve it;
  // may be empty.
  std::string grant_to;
  // Makes the roles of the schema.
  bool create_roles = false;
  // Distributes the records over the nodes of Citus.
  bool distribute = false;
  // Of their names; empty: the schema's name.
  std::string role_prefix;
};

// The options of `idempotencyd check-config`, validated.
struct CheckConfigOptions {
  std::string config;
  // Prints the configuration, without digests of tokens.
  bool print = false;
};

// The options of `idempotencyd health`, validated.
struct HealthOptions {
  // nullopt: the idempotencyd on this machine, at the address of its command
  // line.
  std::optional<NetworkAddress> address;
  // The server uses TLS; also if one of these files is set.
  bool tls = false;
  // Empty: the server's certificate is not verified, for a server of this machine.
  std::string tls_ca;
  // The name that the certificate must have; empty: the address' host.
  std::string tls_name;
  // The client's own, for mutual TLS.
  std::string tls_certificate;
  std::string tls_key;
  // Empty: the server as a whole.
  std::string service;
  absl::Duration timeout = absl::Seconds(2);
  // How long to try again until the server is SERVING. Zero: one try.
  absl::Duration wait = absl::ZeroDuration();
};

// Text to print on stdout: --help, --version.
struct ShowText {
  std::string text;
};

using CommandLine = std::variant<ServeOptions, ServeTestingOptions, MigrateOptions,
                                 CheckConfigOptions, HealthOptions, ShowText>;

// Reads the arguments after the program's name. Opens nothing: files and stores
// are checked by the code that uses them. INVALID_ARGUMENT names the wrong
// argument and what to write instead.
absl::StatusOr<CommandLine> ParseCommandLine(absl::Span<const absl::string_view> args);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_H_
