#include "server/process/command_line/serve_flags.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "command_line/flag_set.h"
#include "server/limits.h"
#include "server/process/command_line/flag_values.h"
#include "server/process/command_line/serve_checks.h"
#include "server/store/limits.h"

namespace idempotency::internal {
namespace {

constexpr absl::string_view kServeSummary =
    R"(idempotencyd serve --store=ADDRESS [flags]

Answers gRPC calls until SIGTERM or SIGINT, then waits for running calls to finish.
A second signal ends the process at once. When ready, it prints one line on stdout
with the ports in use; its log goes to stderr, one line per event.

The gRPC server also provides reflection and grpc.health.v1.Health.
Health is NOT_SERVING while the store cannot commit (it is unreachable, read-only, or
waits for an absent standby); calls then fail with UNAVAILABLE / STORE_UNAVAILABLE.
The server recovers without a restart.

Flags:
)";

constexpr absl::string_view kStoreHelp =
    R"(Where the records are stored. Required.
  sqlite:PATH       a file that only this process uses; created if missing
  postgresql://...  a libpq URI; run `idempotencyd migrate` first. Do not include
                    the password: other users of the machine can read command
                    lines. Use PGPASSWORD or a PGPASSFILE.
  redis://...       Redis 6 or newer, or Valkey; run `idempotencyd migrate`
                    once. Also redis+sentinel://, redis+cluster://, and
                    rediss for TLS. The password is in
                    REDIS_PASSWORD or ?password_file=PATH. Weaker than Postgres;
                    docs/redis.md.)";

constexpr absl::string_view kConfigHelp =
    R"(File in protobuf text format: who may do what, and settings of namespaces; see
docs/configuration.md. Read again when it changes. Required for a --listen
address that other machines reach; without it, on an address of this machine
alone, every caller may do everything.)";

constexpr std::size_t kMib = 1024 * 1024;

// Clients renew their sessions at half of the grace: with a shorter one they would do little else.
constexpr absl::Duration kMinConnectionGrace = absl::Seconds(10);

// The command line of `serve` before validation.
struct ServeFlags {
  explicit ServeFlags(ServeOptions* options) {
    // The order of the help.
    AddStoreFlags(options);
    AddAddressFlags();
    AddServiceFlags(options);
    AddListenerFlags(options);
    AddTlsFlags(&options->tls);
    AddAccessFlags(options);
    AddStoredDataFlags(options);
    AddTelemetryFlags(options);
    AddProcessFlags(options);
  }

  std::string listen = "127.0.0.1:7411";
  std::string store;
  std::string maintenance_store;
  std::string statements = "auto";
  std::string metrics = "127.0.0.1:9464";
  std::string console;
  std::string ext_proc;
  std::string log_level = "info";
  std::string log_format = "text";
  int transport_mib = static_cast<int>(limits::kListenerBytes / kMib);
  int max_calls = limits::kMaxCalls;
  FlagSet set;

 private:
  void AddStoreFlags(ServeOptions* options);
  void AddAddressFlags();
  void AddServiceFlags(ServiceOptions* options);
  void AddListenerFlags(ServeOptions* options);
  void AddTlsFlags(ListenerTlsFiles* tls);
  void AddAccessFlags(ServeOptions* options);
  void AddStoredDataFlags(ServeOptions* options);
  void AddTelemetryFlags(ServeOptions* options);
  void AddProcessFlags(ServeOptions* options);
};

void ServeFlags::AddStoreFlags(ServeOptions* options) {
  set.AddText("store", "ADDRESS", &store, kStoreHelp);
  set.AddText("maintenance_store", "ADDRESS", &maintenance_store,
              "The same Postgres schema as --store with another user, for the sweep and for calls\n"
              "of administrators; the user of --store then needs no right to delete. Empty: the\n"
              "user of --store does both.");
  set.AddText("statements", "MODE", &statements,
              "How Postgres is used: batched, one statement and one commit for many calls; or\n"
              "single-row, one of each for every record, in a pipeline, for records that are\n"
              "distributed over nodes. auto is single-row where Citus has distributed them, else\n"
              "batched. See docs/scaling.md.");
  set.AddDuration("clock_margin", &options->store.clock_margin, absl::ZeroDuration(),
                  limits::kClockStepMargin,
                  "With single-row statements: by how much the clocks of the nodes that sessions\n"
                  "reach may differ. Leases and records last that much longer for others.");
  set.AddSwitch("accept_empty_store", &options->store.accept_empty,
                "Serve a Redis that is empty or lost records without `idempotencyd migrate`: for\n"
                "trying it out only. Operations whose records were lost run again.");
}

void ServeFlags::AddAddressFlags() {
  set.AddText("listen", "ADDRESS", &listen,
              "Listen address for gRPC: HOST:PORT, [IPV6]:PORT or unix:PATH. Port 0 chooses a\n"
              "free port.");
  set.AddText("metrics", "ADDRESS", &metrics,
              "Listen address of /metrics for Prometheus, plain HTTP: IP:PORT. Empty disables it.");
  set.AddText("console", "ADDRESS", &console,
              "Listen address of the console, HOST:PORT, for example localhost:7412; with\n"
              "--tls_cert it is HTTPS. Empty: none. See docs/console.md.");
  set.AddText("ext_proc", "ADDRESS", &ext_proc,
              "Listen address of the external processor that Envoy calls, HOST:PORT, for example\n"
              "localhost:7413, with the TLS files of --listen; --config states its routes. Empty:\n"
              "none. See docs/external_processor.md.");
}

void ServeFlags::AddServiceFlags(ServiceOptions* options) {
  set.AddInt("store_connections", &options->store_connections, 1,
             ServiceOptions::kMaxStoreConnections,
             "Connections to Postgres or Redis for calls, which share them in batches, so that\n"
             "few are enough; the default is one for each processor, from 2 to 4. One more\n"
             "connection sweeps, one monitors the store, and one serves administrators. SQLite\n"
             "always has one writer.");
  set.AddDuration("sweep_interval", &options->sweep_interval, ServiceOptions::kMinSweepInterval,
                  ServiceOptions::kMaxSweepInterval,
                  "Time between two sweeps, which remove expired records. One replica sweeps at a\n"
                  "time; with single-row statements all do.");
  set.AddInt("queue_mib", &options->queue_mib, ServiceOptions::kMinQueueMib,
             ServiceOptions::kMaxQueueMib,
             "Memory limit for callers, in MiB: operations that are queued, running or waiting,\n"
             "and replies until they have been written. Above it reservations and replays are\n"
             "refused, so that memory stays bounded under large replies.");
  set.AddSwitch(
      "relaxed_reservations", &options->relaxed_reservations,
      "On Postgres, reservations of methods with a completion ledger that request it\n"
      "are answered before they are durable: a crash or a failover of Postgres may lose\n"
      "them (docs/ledger.md). On by default; --relaxed_reservations=false makes them all\n"
      "durable.");
}

void ServeFlags::AddListenerFlags(ServeOptions* options) {
  set.AddInt("max_connections", &options->max_connections, 0, 1'000'000,
             "Maximum number of connections. Further connections are closed at once, as are\n"
             "those of one address above half of the maximum. 0: as many as the limit of open\n"
             "descriptors permits, at most 8192. The daemon raises the soft limit to the hard\n"
             "one at start-up.");
  set.AddDuration(
      "max_connection_age", &options->listener.max_connection_age, absl::Milliseconds(100),
      absl::Hours(24 * 365),
      "A connection is closed at this age, plus or minus a tenth, so that clients also\n"
      "find new replicas. Calls move to another connection; none fails, unless\n"
      "--connection_grace is short.");
  set.AddDuration(
      "connection_grace", &options->listener.connection_grace, kMinConnectionGrace,
      limits::kMaxMaxLease,
      "Time for the calls of such a connection to finish. Half of it, at most 1m, is the\n"
      "age at which a session is renewed. Below 2m a call that waits for a running attempt\n"
      "may be cut. The port of --ext_proc grants at least 1h: set as much as the longest\n"
      "guarded request behind a proxy takes. The other port grants at most 1h.");
  set.AddDuration("handshake_timeout", &options->listener.handshake_timeout,
                  absl::Milliseconds(100), absl::Minutes(10),
                  "Time limit for a new connection to become ready for calls.");
  set.AddDuration("max_connection_idle", &options->listener.max_connection_idle,
                  absl::Milliseconds(100), absl::Hours(24 * 365),
                  "A connection without a call is closed after this time.");
  set.AddInt("max_streams", &options->listener.max_streams, 1, 1'000'000,
             "Concurrent calls on one connection; further calls wait in the client. A session\n"
             "counts as one call.");
  set.AddInt("max_calls", &max_calls, 2, 10'000'000,
             "Concurrent calls of all connections of a port; further calls are refused, as are\n"
             "those of one address above half of the maximum. Each takes 12 to 17 KiB while it\n"
             "is idle. Calls of the health service are counted apart, up to 1024.");
  set.AddSwitch(
      "channelz", &options->listener.channelz,
      "Serve gRPC's channelz, to debug connections. It shows every caller the addresses of\n"
      "the others, and --max_calls does not count its calls: only on a trusted network.");
  set.AddInt("transport_mib", &transport_mib, 32, 64 * 1024,
             "Memory limit of gRPC for all connections, in MiB: bytes received but not yet\n"
             "read. Above it, gRPC ends the calls that hold the most memory.");
  set.AddDuration("drain_timeout", &options->drain_timeout, absl::ZeroDuration(), absl::Minutes(10),
                  "Time for running calls to finish after SIGTERM; then they are cancelled. Keep\n"
                  "it below the grace period of the supervisor that stops the process.");
}

void ServeFlags::AddTlsFlags(ListenerTlsFiles* tls) {
  set.AddName("tls_cert", "FILE", &tls->certificate,
              "PEM file of the server's certificate chain. Without it calls are not encrypted.\n"
              "Changes of these files apply to new connections within two seconds, once\n"
              "certificate and key match.");
  set.AddName("tls_key", "FILE", &tls->key, "PEM file of the certificate's private key.");
  set.AddName("tls_client_ca", "FILE", &tls->client_ca,
              "PEM file of the authorities whose client certificates are accepted (mTLS). With\n"
              "it, a client without a certificate cannot connect.");
}

void ServeFlags::AddAccessFlags(ServeOptions* options) {
  set.AddName("config", "FILE", &options->config, kConfigHelp);
  set.AddSwitch("allow_plaintext", &options->allow_plaintext,
                "Accept calls from other machines without TLS. Tokens and replies can then be\n"
                "read on the network: only for a network that encrypts them itself.");
}

void ServeFlags::AddStoredDataFlags(ServeOptions* options) {
  set.AddName("keyring", "FILE", &options->sealing.key_ring,
              "File of the keys with which the store's replies and checkpoints are encrypted, and\n"
              "its fingerprints made; `idempotencyctl keyring generate` makes it. Without it\n"
              "nothing is sealed. A change of the file applies within two seconds.");
  set.AddSwitch(
      "accept_unsealed", &options->sealing.accept_unsealed,
      "Also read values that were stored before --keyring was set, and store unsealed ones\n"
      "until the first key seals. Remove it once no record from before is kept: earlier,\n"
      "the retries of those are refused. Until then everyone who can write to the\n"
      "database can add an unsealed reply.");
  set.AddSwitch("read_only", &options->read_only,
                "Answer Get, List and ListAudit only, from a standby or a restored backup of\n"
                "Postgres. Guards cannot use it: give it an address of its own.");
}

void ServeFlags::AddTelemetryFlags(ServeOptions* options) {
  set.AddText("otlp_endpoint", "ADDRESS", &options->otlp_endpoint,
              "OpenTelemetry collector for spans of sampled traces: HOST:PORT, OTLP over gRPC.\n"
              "Empty: none. On this machine without TLS, elsewhere with TLS.");
  set.AddName("otlp_ca", "FILE", &options->otlp_ca,
              "PEM file of the authorities of the collector's certificate. Default: those that\n"
              "the system trusts.");
  set.AddSwitch("otlp_plaintext", &options->otlp_plaintext,
                "Send spans to another machine without TLS.");
}

void ServeFlags::AddProcessFlags(ServeOptions* options) {
  set.AddSwitch("core_dumps", &options->core_dumps,
                "Let a crash leave a core dump, within the limits of the process. It contains\n"
                "callers' keys and replies, tokens and the key ring.");
  set.AddText("log_level", "LEVEL", &log_level,
              "Lowest severity that is logged: debug, info, warn or error.");
  set.AddText("log_format", "FORMAT", &log_format,
              "Form of the lines on stderr: text, or json, one object per line.");
}

absl::StatusOr<LogFormat> ParseLogFormat(absl::string_view text) {
  if (text == "text") return LogFormat::kText;
  if (text == "json") return LogFormat::kJson;
  return AboutFlag("log_format", absl::InvalidArgumentError("must be text or json"));
}

// The second login of the store.
absl::Status ReadMaintenance(absl::string_view text, ServeOptions& options) {
  if (text.empty()) return absl::OkStatus();
  const absl::StatusOr<StoreAddress> maintenance = StoreAddress::Parse(text);
  if (!maintenance.ok()) return AboutFlag("maintenance_store", maintenance.status());
  if (const absl::Status checked = CheckMaintenance(*maintenance, options); !checked.ok()) {
    return checked;
  }
  options.store.maintenance = maintenance->location;
  return absl::OkStatus();
}

absl::Status ReadStatements(absl::string_view text, ServeOptions& options) {
  if (text == "auto") return absl::OkStatus();
  if (text == "batched") {
    options.store.statements = PostgresStatementMode::kBatched;
  } else if (text == "single-row") {
    options.store.statements = PostgresStatementMode::kSingleRow;
  } else {
    return AboutFlag("statements",
                     absl::InvalidArgumentError("must be auto, batched or single-row"));
  }
  return CheckStatements(options);
}

absl::Status ReadStore(const ServeFlags& flags, ServeOptions& options) {
  absl::StatusOr<StoreAddress> store = ParseStore(flags.store);
  if (!store.ok()) return store.status();
  store->clock_margin = options.store.clock_margin;
  store->accept_empty = options.store.accept_empty;
  options.store = *std::move(store);
  if (absl::Status read = ReadStatements(flags.statements, options); !read.ok()) return read;
  if (absl::Status margin = CheckClockMargin(options); !margin.ok()) return margin;
  return ReadMaintenance(flags.maintenance_store, options);
}

// An address of HTTP, or none.
absl::StatusOr<std::optional<NetworkAddress>> ParseHttp(absl::string_view flag,
                                                        absl::string_view text) {
  if (text.empty()) return std::optional<NetworkAddress>();
  absl::StatusOr<NetworkAddress> address = NetworkAddress::Parse(text);
  if (!address.ok()) return AboutFlag(flag, address.status());
  if (!address->unix_path.empty()) {
    return AboutFlag(flag, absl::InvalidArgumentError("cannot be a unix socket; write IP:PORT"));
  }
  return std::optional<NetworkAddress>(*std::move(address));
}

absl::Status ReadAddresses(const ServeFlags& flags, ServeOptions& options) {
  absl::StatusOr<NetworkAddress> listen = NetworkAddress::Parse(flags.listen);
  if (!listen.ok()) return AboutFlag("listen", listen.status());
  options.listen = *std::move(listen);

  absl::StatusOr<std::optional<NetworkAddress>> metrics = ParseHttp("metrics", flags.metrics);
  if (!metrics.ok()) return metrics.status();
  options.metrics = *std::move(metrics);

  absl::StatusOr<std::optional<NetworkAddress>> console = ParseHttp("console", flags.console);
  if (!console.ok()) return console.status();
  options.console = *std::move(console);

  if (flags.ext_proc.empty()) return absl::OkStatus();
  absl::StatusOr<NetworkAddress> ext_proc = NetworkAddress::Parse(flags.ext_proc);
  if (!ext_proc.ok()) return AboutFlag("ext_proc", ext_proc.status());
  options.ext_proc = *std::move(ext_proc);
  return absl::OkStatus();
}

absl::Status ReadLog(const ServeFlags& flags, ServeOptions& options) {
  const absl::StatusOr<LogLevel> level = ParseLogLevel(flags.log_level);
  if (!level.ok()) return level.status();
  options.log_level = *level;
  const absl::StatusOr<LogFormat> format = ParseLogFormat(flags.log_format);
  if (!format.ok()) return format.status();
  options.log_format = *format;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ServeOptions> ParseServe(absl::Span<const absl::string_view> args) {
  ServeOptions options;
  ServeFlags flags(&options);
  if (const absl::Status parsed = flags.set.Parse(args); !parsed.ok()) return parsed;
  if (const absl::Status read = ReadStore(flags, options); !read.ok()) return read;
  if (const absl::Status read = ReadAddresses(flags, options); !read.ok()) return read;
  if (const absl::Status read = ReadLog(flags, options); !read.ok()) return read;
  options.listener.max_bytes = static_cast<std::size_t>(flags.transport_mib) * kMib;
  options.listener.calls = CallTable::Within(flags.max_calls);
  options.session_age = options.listener.session_age();
  if (const absl::Status checked = CheckServe(options); !checked.ok()) return checked;
  return options;
}

std::string ServeHelp() {
  ServeOptions options;
  return absl::StrCat(kServeSummary, ServeFlags(&options).set.Help());
}

}  // namespace idempotency::internal
