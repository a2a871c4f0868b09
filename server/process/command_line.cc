#include "server/process/command_line.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "command_line/flag_set.h"

#include "server/observability/version.h"

namespace idempotency::internal {
namespace {

constexpr absl::string_view kSummary =
    R"(idempotencyd makes operations run once: for every idempotency key it records
whether the operation is running or has completed, and its reply. Callers reserve
a key over gRPC (idempotency.v1.IdempotencyService), run the operation, and
complete it; every later call with that key gets the same reply.

Usage:
  idempotencyd serve --store=ADDRESS [flags]    answer calls until SIGTERM
  idempotencyd serve-testing [flags]            serve the tests of your service
  idempotencyd migrate --store=ADDRESS [flags]  migrate a Postgres schema
  idempotencyd check-config --config=FILE       check a configuration file
  idempotencyd health [flags]                   check whether a server is SERVING
  idempotencyd --help | --version

`idempotencyd COMMAND --help` lists a command's flags.

Examples:
  # One machine: SQLite in a file, on the default port.
  idempotencyd serve --store=sqlite:/var/lib/idempotencyd/records.db

  # Production: any number of replicas over one Postgres.
  export PGPASSWORD=...
  idempotencyd migrate --store=postgresql://idempotency@db/idempotency
  idempotencyd serve --store=postgresql://idempotency@db/idempotency \
      --listen=0.0.0.0:7411 --metrics=0.0.0.0:9464 --config=idempotencyd.textproto \
      --tls_cert=server.pem --tls_key=server.key --tls_client_ca=clients.pem

Exit status: 0 success, or stopped by SIGTERM or SIGINT; 2 failure, with the
reason on stderr; 1 `health`: the server is not SERVING.
)";

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

constexpr absl::string_view kServeTestingSummary =
    R"(idempotencyd serve-testing [flags]

Serves tests, on 127.0.0.1 only: records are in memory and end with the process. The
metadata `idempotency-test-world` of a call names its world, which has its own records
and its own clock; idempotency.testing.v1.TestingService moves that clock and empties the
world. When ready, it prints one line on stdout with its address. It ends on SIGTERM,
and with the process that started it.

Flags:
)";

constexpr absl::string_view kMigrateSummary =
    R"(idempotencyd migrate --store=ADDRESS [flags]

Migrates the schema of a Postgres database to the version that this build serves.
A repeated run changes nothing, and a newer schema that this build may serve stays
unchanged. Traffic continues during the migration. `serve` migrates a SQLite file
when it opens it.

Flags:
)";

constexpr absl::string_view kCheckConfigSummary =
    R"(idempotencyd check-config --config=FILE [flags]

Checks a configuration file, and the files that it names, as `serve` does. Exits 0 if it
is valid; otherwise it prints each fault with its line and exits 2.

Flags:
)";

constexpr absl::string_view kHealthSummary =
    R"(idempotencyd health [flags]

Calls grpc.health.v1.Health of a gRPC server, for container health checks. Prints
SERVING and exits 0 if that is the answer; exits 1 for another answer or none.

Without --address it calls the one idempotencyd that serves on this machine or in
this container, at the address and with the TLS flags of that process's command
line: with TLS it does not verify the certificate; with mutual TLS it presents the
server's own certificate, which --tls_client_ca must accept. Otherwise set --tls_cert
and --tls_key.

Flags:
)";

constexpr absl::string_view kStoreHelp =
    R"(Where the records are stored. Required.
  sqlite:PATH       a file that only this process uses; created if missing
  postgresql://...  a libpq URI; run `idempotencyd migrate` first. Do not include
                    the password: other users of the machine can read command
                    lines. Use PGPASSWORD or a PGPASSFILE.
  redis://...       Redis 6 or newer, or Valkey; also redis+sentinel://,
                    redis+cluster://, and rediss for TLS. The password is in
                    REDIS_PASSWORD or ?password_file=PATH. Weaker than Postgres;
                    docs/redis.md.)";

constexpr absl::string_view kMigrateStoreHelp =
    R"(The Postgres schema to migrate: postgresql://..., a libpq URI. Required. Do not
include the password: other users of the machine can read command lines. Use
PGPASSWORD or a PGPASSFILE. For sqlite:PATH and redis://... there is nothing to do.)";

constexpr absl::string_view kConfigHelp =
    R"(File in protobuf text format: who may do what, and settings of namespaces; see
docs/configuration.md. Read again when it changes. Required for a --listen
address that other machines reach; without it, on an address of this machine
alone, every caller may do everything.)";

absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view text) {
  if (text == "debug") return LogLevel::kDebug;
  if (text == "info") return LogLevel::kInfo;
  if (text == "warn") return LogLevel::kWarn;
  if (text == "error") return LogLevel::kError;
  return absl::InvalidArgumentError("must be debug, info, warn or error");
}

absl::StatusOr<LogFormat> ParseLogFormat(absl::string_view text) {
  if (text == "text") return LogFormat::kText;
  if (text == "json") return LogFormat::kJson;
  return absl::InvalidArgumentError("must be text or json");
}

// Names the flag in an error about its value.
absl::Status AboutFlag(absl::string_view flag, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, ": ", status.message()));
}

constexpr std::size_t kMib = 1024 * 1024;

// The command line of `serve` before validation.
struct ServeFlags {
  explicit ServeFlags(ServeOptions* options);

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
};

ServeFlags::ServeFlags(ServeOptions* options) {
  set.AddText("store", "ADDRESS", &store, kStoreHelp);
  set.AddText("maintenance_store", "ADDRESS", &maintenance_store,
              "The same Postgres schema as --store with another user, for sweeping and for what\n"
              "administrators do; the user of --store then needs no right to delete. Empty: all\n"
              "with the user of --store.");
  set.AddText("statements", "MODE", &statements,
              "How Postgres is used: batched, one statement and one commit for many calls; or\n"
              "single-row, one of each for every record, in a pipeline, for records that are\n"
              "distributed over nodes. auto is single-row where Citus has distributed them, else\n"
              "batched. See docs/scaling.md.");
  set.AddDuration("clock_margin", &options->store.clock_margin, absl::ZeroDuration(),
                  limits::kClockStepMargin,
                  "With single-row statements: by how much the clocks of the nodes that sessions\n"
                  "reach may differ. Leases and records last that much longer for others.");
  set.AddText("listen", "ADDRESS", &listen,
              "Listen address for gRPC: HOST:PORT, [IPV6]:PORT or unix:PATH. Port 0 chooses a\n"
              "free port.");
  set.AddText("metrics", "ADDRESS", &metrics,
              "Listen address of /metrics for Prometheus, plain HTTP: IP:PORT. Empty disables it.");
  set.AddText("console", "ADDRESS", &console,
              "Listen address of the operators' page, HOST:PORT, for example localhost:7412; with\n"
              "--tls_cert it is HTTPS. Empty: none. See docs/console.md.");
  set.AddText("ext_proc", "ADDRESS", &ext_proc,
              "Listen address of the external processor that Envoy calls, HOST:PORT, with the\n"
              "TLS files of --listen; --config states what it guards. Empty: none. See\n"
              "docs/external_processor.md.");
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
  set.AddInt("max_connections", &options->max_connections, 0, 1'000'000,
             "Maximum number of connections. Further connections are closed at once, as are\n"
             "those of one address above half of the maximum. 0 takes what the limit of open\n"
             "descriptors leaves, at most 8192. The daemon raises the soft limit to the hard\n"
             "one at start-up.");
  set.AddDuration(
      "max_connection_age", &options->listener.max_connection_age, absl::Milliseconds(100),
      absl::Hours(24 * 365),
      "A connection is closed at this age, plus or minus a tenth, so that clients also\n"
      "find new replicas. Calls move to another connection; none fails.");
  set.AddDuration("connection_grace", &options->listener.connection_grace, absl::Milliseconds(200),
                  absl::Hours(1), "Time for the calls of such a connection to finish.");
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
             "does nothing. Calls of the health service are counted apart, up to 1024.");
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
  set.AddText("tls_cert", "FILE", &options->tls.certificate,
              "PEM file of the server's certificate chain. Without it calls are not encrypted.\n"
              "Changes of these files apply to new connections within two seconds, once\n"
              "certificate and key match.");
  set.AddText("tls_key", "FILE", &options->tls.key, "PEM file of the certificate's private key.");
  set.AddText("tls_client_ca", "FILE", &options->tls.client_ca,
              "PEM file of the authorities whose client certificates are accepted (mTLS). With\n"
              "it, a client without a certificate cannot connect.");
  set.AddText("config", "FILE", &options->config, kConfigHelp);
  set.AddSwitch("allow_plaintext", &options->allow_plaintext,
                "Accept calls from other machines without TLS. Tokens and replies can then be\n"
                "read on the network: only for a network that encrypts them itself.");
  set.AddText("keyring", "FILE", &options->sealing.key_ring,
              "File of the keys that seal replies and checkpoints and key fingerprints in the\n"
              "store; `idempotencyctl keyring generate` makes it. Empty: nothing is sealed. A\n"
              "change of the file applies within two seconds.");
  set.AddSwitch("accept_unsealed", &options->sealing.accept_unsealed,
                "Also read what was stored before --keyring was set, and store unsealed until the\n"
                "first key seals. Remove it once the longest retention has passed: until then who\n"
                "can write the database can put an unsealed reply in.");
  set.AddSwitch("read_only", &options->read_only,
                "Answer Get, List and ListAudit only, from a standby or a restored backup of\n"
                "Postgres. Guards cannot use it: give it an address of its own.");
  set.AddText("otlp_endpoint", "ADDRESS", &options->otlp_endpoint,
              "OpenTelemetry collector for spans of sampled traces: HOST:PORT, OTLP over gRPC.\n"
              "Empty: none. On this machine without TLS, elsewhere with TLS.");
  set.AddText("otlp_ca", "FILE", &options->otlp_ca,
              "PEM file of the authorities of the collector's certificate. Default: those that\n"
              "the system trusts.");
  set.AddSwitch("otlp_plaintext", &options->otlp_plaintext,
                "Send spans to another machine without TLS.");
  set.AddSwitch("core_dumps", &options->core_dumps,
                "Let a crash leave a core dump, within the limits of the process. It contains\n"
                "callers' keys and replies, tokens and the key ring.");
  set.AddText("log_level", "LEVEL", &log_level,
              "Lowest severity that is logged: debug, info, warn or error.");
  set.AddText("log_format", "FORMAT", &log_format,
              "Form of the lines on stderr: text, or json, one object per line.");
}

absl::StatusOr<StoreAddress> ParseStore(absl::string_view text) {
  if (text.empty()) {
    return absl::InvalidArgumentError(
        "--store is missing; write for example --store=sqlite:/var/lib/idempotencyd/records.db");
  }
  absl::StatusOr<StoreAddress> store = StoreAddress::Parse(text);
  if (!store.ok()) return AboutFlag("store", store.status());
  return store;
}

// The second login of the store.
absl::Status AddMaintenance(absl::string_view text, ServeOptions& options) {
  if (text.empty()) return absl::OkStatus();
  const absl::StatusOr<StoreAddress> maintenance = StoreAddress::Parse(text);
  if (!maintenance.ok()) return AboutFlag("maintenance_store", maintenance.status());
  if (maintenance->kind != StoreAddress::Kind::kPostgres ||
      options.store.kind != StoreAddress::Kind::kPostgres) {
    return absl::InvalidArgumentError(
        "--maintenance_store is another user of a Postgres store: both it and --store must be "
        "postgresql://...");
  }
  if (options.read_only) {
    return absl::InvalidArgumentError(
        "--read_only neither sweeps nor changes anything: it cannot be combined with "
        "--maintenance_store");
  }
  options.store.maintenance = maintenance->location;
  return absl::OkStatus();
}

absl::Status AddStatements(absl::string_view text, ServeOptions& options) {
  if (text == "batched") {
    options.store.statements = PostgresStatementMode::kBatched;
  } else if (text == "single-row") {
    options.store.statements = PostgresStatementMode::kSingleRow;
  } else if (text == "auto") {
    return absl::OkStatus();
  } else {
    return AboutFlag("statements",
                     absl::InvalidArgumentError("must be auto, batched or single-row"));
  }
  if (options.store.kind == StoreAddress::Kind::kPostgres) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--statements needs a Postgres store: --store=postgresql://...");
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

absl::Status ValidateTls(const ListenerTlsFiles& tls) {
  if (tls.certificate.empty() != tls.key.empty()) {
    return absl::InvalidArgumentError(
        "--tls_cert and --tls_key must be set together; set both or neither");
  }
  if (!tls.client_ca.empty() && tls.certificate.empty()) {
    return absl::InvalidArgumentError("--tls_client_ca needs --tls_cert and --tls_key");
  }
  return absl::OkStatus();
}

// Beyond this machine nothing is permitted unless it is configured.
absl::Status ValidateExposure(absl::string_view flag, const NetworkAddress& address,
                              const ServeOptions& options) {
  if (address.IsLocal()) return absl::OkStatus();
  if (options.config.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag,
                     " is reached by other machines: --config must state who may do what; "
                     "docs/configuration.md has an example"));
  }
  if (options.tls.certificate.empty() && !options.allow_plaintext) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag,
                     " is reached by other machines: set --tls_cert and --tls_key, or "
                     "--allow_plaintext"));
  }
  return absl::OkStatus();
}

absl::Status ValidateExposure(const ServeOptions& options) {
  absl::Status exposed = ValidateExposure("listen", options.listen, options);
  if (exposed.ok() && options.console) {
    exposed = ValidateExposure("console", *options.console, options);
  }
  if (exposed.ok() && options.ext_proc) {
    exposed = ValidateExposure("ext_proc", *options.ext_proc, options);
  }
  return exposed;
}

absl::Status ValidateOtlp(const ServeOptions& options) {
  const bool has_settings = !options.otlp_ca.empty() || options.otlp_plaintext;
  if (has_settings && options.otlp_endpoint.empty()) {
    return absl::InvalidArgumentError("--otlp_ca and --otlp_plaintext need --otlp_endpoint");
  }
  if (!options.otlp_ca.empty() && options.otlp_plaintext) {
    return absl::InvalidArgumentError("--otlp_ca and --otlp_plaintext exclude each other");
  }
  if (options.otlp_endpoint.empty()) return absl::OkStatus();
  const absl::StatusOr<NetworkAddress> address = NetworkAddress::Parse(options.otlp_endpoint);
  return address.ok() ? absl::OkStatus() : AboutFlag("otlp_endpoint", address.status());
}

absl::StatusOr<CommandLine> ParseServe(absl::Span<const absl::string_view> args) {
  ServeOptions options;
  ServeFlags flags(&options);
  if (const absl::Status parsed = flags.set.Parse(args); !parsed.ok()) return parsed;

  absl::StatusOr<StoreAddress> store = ParseStore(flags.store);
  if (!store.ok()) return store.status();
  store->clock_margin = options.store.clock_margin;
  options.store = *std::move(store);
  if (absl::Status added = AddStatements(flags.statements, options); !added.ok()) return added;
  if (absl::Status maintenance = AddMaintenance(flags.maintenance_store, options);
      !maintenance.ok()) {
    return maintenance;
  }

  absl::StatusOr<NetworkAddress> listen = NetworkAddress::Parse(flags.listen);
  if (!listen.ok()) return AboutFlag("listen", listen.status());
  options.listen = *std::move(listen);

  absl::StatusOr<std::optional<NetworkAddress>> metrics = ParseHttp("metrics", flags.metrics);
  if (!metrics.ok()) return metrics.status();
  options.metrics = *std::move(metrics);

  absl::StatusOr<std::optional<NetworkAddress>> console = ParseHttp("console", flags.console);
  if (!console.ok()) return console.status();
  options.console = *std::move(console);

  if (!flags.ext_proc.empty()) {
    absl::StatusOr<NetworkAddress> ext_proc = NetworkAddress::Parse(flags.ext_proc);
    if (!ext_proc.ok()) return AboutFlag("ext_proc", ext_proc.status());
    options.ext_proc = *std::move(ext_proc);
    if (options.config.empty()) {
      return absl::InvalidArgumentError(
          "--ext_proc needs --config: external_processor in it states what is guarded");
    }
  }

  const absl::StatusOr<LogLevel> level = ParseLogLevel(flags.log_level);
  if (!level.ok()) return AboutFlag("log_level", level.status());
  options.log_level = *level;
  const absl::StatusOr<LogFormat> format = ParseLogFormat(flags.log_format);
  if (!format.ok()) return AboutFlag("log_format", format.status());
  options.log_format = *format;

  if (const absl::Status tls = ValidateTls(options.tls); !tls.ok()) return tls;
  if (const absl::Status exposed = ValidateExposure(options); !exposed.ok()) return exposed;
  if (const absl::Status otlp = ValidateOtlp(options); !otlp.ok()) return otlp;
  if (options.read_only && options.store.kind != StoreAddress::Kind::kPostgres) {
    return absl::InvalidArgumentError(
        "--read_only needs a Postgres store: a SQLite file belongs to one process");
  }
  if (options.sealing.accept_unsealed && options.sealing.key_ring.empty()) {
    return absl::InvalidArgumentError(
        "--accept_unsealed needs --keyring: without it nothing is sealed");
  }
  options.listener.max_bytes = static_cast<std::size_t>(flags.transport_mib) * kMib;
  options.listener.calls = CallTable::Within(flags.max_calls);
  options.session_age = options.listener.session_age();
  return options;
}

// The command line of `serve-testing` before validation.
struct ServeTestingFlags {
  explicit ServeTestingFlags(ServeTestingOptions* options) {
    set.AddInt("port", &port, 0, 65'535, "The port on 127.0.0.1; 0 chooses a free one.");
    set.AddSwitch("exit_with_parent", &options->exit_with_parent,
                  "End when the process ends that started this one. On by default;\n"
                  "--exit_with_parent=false keeps it running.");
    set.AddSwitch("exit_with_stdin", &options->exit_with_stdin,
                  "End when stdin ends: for a test that holds the other end of a pipe.");
    set.AddText("log_level", "LEVEL", &log_level,
                "Lowest severity that is logged: debug, info, warn or error.");
  }

  int port = 0;
  std::string log_level = "warn";
  FlagSet set;
};

absl::StatusOr<CommandLine> ParseServeTesting(absl::Span<const absl::string_view> args) {
  ServeTestingOptions options;
  ServeTestingFlags flags(&options);
  if (const absl::Status parsed = flags.set.Parse(args); !parsed.ok()) return parsed;
  options.port = static_cast<std::uint16_t>(flags.port);
  const absl::StatusOr<LogLevel> level = ParseLogLevel(flags.log_level);
  if (!level.ok()) return AboutFlag("log_level", level.status());
  options.log_level = *level;
  return options;
}

// The command line of `migrate` before validation.
struct MigrateFlags {
  explicit MigrateFlags(MigrateOptions* options) {
    set.AddText("store", "ADDRESS", &store, kMigrateStoreHelp);
    set.AddInt("to", &to, kNewest, 9999,
               "The target version; -1 is the newest. A version lower than the schema's is a\n"
               "downgrade: the data of the newer tables is lost; 0 removes every record.");
    set.AddSwitch("status", &options->status,
                  "Print the state of each migration and change nothing.");
    set.AddSwitch("yes", &options->yes,
                  "Confirm the downgrade to the version of --to. Refused while a daemon has\n"
                  "sessions open on the schema.");
    set.AddText("grant_to", "ROLE", &options->grant_to,
                "Grant this role, which does not own the schema, the privileges to serve it:\n"
                "reading and writing its tables. Set it with every migration: each may add a\n"
                "table.");
    set.AddSwitch("create_roles", &options->create_roles,
                  "Make the roles PREFIX_owner, _app, _sweeper, _admin and _reader if they are\n"
                  "missing, give the schema to the owner, and grant the others what they need\n"
                  "and no more. Needs CREATEROLE. Set it with every migration.");
    set.AddSwitch("distribute", &options->distribute,
                  "Distribute the records over the nodes of Citus, which the database has as its\n"
                  "coordinator. Once; refused while a daemon has sessions open on the schema.\n"
                  "See docs/scaling.md.");
    set.AddText("role_prefix", "PREFIX", &options->role_prefix,
                "Of the names of these roles. Default: the name of the schema.");
  }

  static constexpr int kNewest = -1;
  std::string store;
  int to = kNewest;
  FlagSet set;
};

absl::StatusOr<CommandLine> ParseMigrate(absl::Span<const absl::string_view> args) {
  MigrateOptions options;
  MigrateFlags flags(&options);
  if (const absl::Status parsed = flags.set.Parse(args); !parsed.ok()) return parsed;

  absl::StatusOr<StoreAddress> store = ParseStore(flags.store);
  if (!store.ok()) return store.status();
  options.store = *std::move(store);

  if (flags.to != MigrateFlags::kNewest) options.to = flags.to;
  if (options.status && options.to.has_value()) {
    return absl::InvalidArgumentError("--status changes nothing: it cannot be combined with --to");
  }
  if (options.status && (options.yes || !options.grant_to.empty() || options.create_roles)) {
    return absl::InvalidArgumentError(
        "--status changes nothing: it cannot be combined with --yes, --grant_to or --create_roles");
  }
  if (options.distribute && (options.status || options.to.has_value() ||
                             options.store.kind != StoreAddress::Kind::kPostgres)) {
    return absl::InvalidArgumentError(
        "--distribute needs a Postgres store at the newest version: it cannot be combined with "
        "--status or --to");
  }
  if (!options.role_prefix.empty() && !options.create_roles) {
    return absl::InvalidArgumentError(
        "--role_prefix names the roles of --create_roles: set it too");
  }
  if (options.yes && !options.to.has_value()) {
    return absl::InvalidArgumentError("--yes confirms a downgrade: set the version with --to");
  }
  return options;
}

// The command line of `check-config` before validation.
struct CheckConfigFlags {
  explicit CheckConfigFlags(CheckConfigOptions* options) {
    set.AddText("config", "FILE", &options->config, "The file to check. Required.");
    set.AddSwitch("print_config", &options->print,
                  "Print the configuration in full, with the digests of tokens left out.");
  }

  FlagSet set;
};

absl::StatusOr<CommandLine> ParseCheckConfig(absl::Span<const absl::string_view> args) {
  CheckConfigOptions options;
  CheckConfigFlags flags(&options);
  if (const absl::Status parsed = flags.set.Parse(args); !parsed.ok()) return parsed;
  if (options.config.empty()) {
    return absl::InvalidArgumentError("--config is missing; write --config=FILE");
  }
  return options;
}

// The command line of `health` before validation.
struct HealthFlags {
  explicit HealthFlags(HealthOptions* options) {
    set.AddText("address", "ADDRESS", &address,
                "The server: HOST:PORT, [IPV6]:PORT or unix:PATH. Empty for the idempotencyd on\n"
                "this machine.");
    set.AddSwitch(
        "tls", &options->tls,
        "The server at --address uses TLS. Without --tls_ca any certificate is accepted.");
    set.AddText("tls_ca", "FILE", &options->tls_ca,
                "PEM file of the authorities that must have issued the server's certificate.");
    set.AddText("tls_name", "NAME", &options->tls_name,
                "The name that the server's certificate must have. Empty for that of --address.");
    set.AddText("tls_cert", "FILE", &options->tls_certificate,
                "PEM file of the client certificate for a server with mutual TLS.");
    set.AddText("tls_key", "FILE", &options->tls_key,
                "PEM file of that certificate's private key.");
    set.AddText("service", "NAME", &options->service,
                "The service to check. Empty for the server as a whole.");
    set.AddDuration("timeout", &options->timeout, absl::Milliseconds(10), absl::Minutes(1),
                    "Time limit for the answer.");
    set.AddDuration("wait", &options->wait, absl::ZeroDuration(), absl::Minutes(10),
                    "Time to try again until the answer is SERVING, for scripts that start a\n"
                    "server; 0 tries once.");
  }

  std::string address;
  FlagSet set;
};

absl::StatusOr<CommandLine> ParseHealth(absl::Span<const absl::string_view> args) {
  HealthOptions options;
  HealthFlags flags(&options);
  if (const absl::Status parsed = flags.set.Parse(args); !parsed.ok()) return parsed;
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    return absl::InvalidArgumentError(
        "--tls_cert and --tls_key must be set together; set both or neither");
  }
  if (!options.tls_name.empty() && options.tls_ca.empty()) {
    return absl::InvalidArgumentError(
        "--tls_name needs --tls_ca: without it no certificate is verified");
  }
  if (flags.address.empty()) return options;
  absl::StatusOr<NetworkAddress> address = NetworkAddress::Parse(flags.address);
  if (!address.ok()) return AboutFlag("address", address.status());
  options.address = *std::move(address);
  return options;
}

std::string ServeHelp() {
  ServeOptions options;
  return absl::StrCat(kServeSummary, ServeFlags(&options).set.Help());
}

std::string ServeTestingHelp() {
  ServeTestingOptions options;
  return absl::StrCat(kServeTestingSummary, ServeTestingFlags(&options).set.Help());
}

std::string MigrateHelp() {
  MigrateOptions options;
  return absl::StrCat(kMigrateSummary, MigrateFlags(&options).set.Help());
}

std::string CheckConfigHelp() {
  CheckConfigOptions options;
  return absl::StrCat(kCheckConfigSummary, CheckConfigFlags(&options).set.Help());
}

std::string HealthHelp() {
  HealthOptions options;
  return absl::StrCat(kHealthSummary, HealthFlags(&options).set.Help());
}

bool AsksForHelp(absl::Span<const absl::string_view> args) {
  return std::find(args.begin(), args.end(), "--help") != args.end();
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(absl::Span<const absl::string_view> args) {
  if (args.empty()) {
    return absl::InvalidArgumentError(
        "no command is given; write `idempotencyd serve --store=ADDRESS`");
  }
  const absl::string_view command = args.front();
  const absl::Span<const absl::string_view> rest = args.subspan(1);
  if (command == "serve") return AsksForHelp(rest) ? ShowText{ServeHelp()} : ParseServe(rest);
  if (command == "serve-testing") {
    return AsksForHelp(rest) ? ShowText{ServeTestingHelp()} : ParseServeTesting(rest);
  }
  if (command == "migrate") return AsksForHelp(rest) ? ShowText{MigrateHelp()} : ParseMigrate(rest);
  if (command == "check-config") {
    return AsksForHelp(rest) ? ShowText{CheckConfigHelp()} : ParseCheckConfig(rest);
  }
  if (command == "health") return AsksForHelp(rest) ? ShowText{HealthHelp()} : ParseHealth(rest);
  if (command == "--help") return ShowText{std::string(kSummary)};
  if (command == "--version") return ShowText{absl::StrCat("idempotencyd ", Version(), "\n")};
  return absl::InvalidArgumentError(
      absl::StrCat("'", command,
                   "' is not a command; the commands are serve, serve-testing, migrate, "
                   "check-config and health"));
}

}  // namespace idempotency::internal
