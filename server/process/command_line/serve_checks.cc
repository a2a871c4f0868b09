#include "server/process/command_line/serve_checks.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "server/process/command_line/flag_values.h"

namespace idempotency::internal {
namespace {

absl::Status CheckTls(const ListenerTlsFiles& tls) {
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
absl::Status CheckExposure(absl::string_view flag, const NetworkAddress& address,
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

absl::Status CheckExposure(const ServeOptions& options) {
  absl::Status exposed = CheckExposure("listen", options.listen, options);
  if (exposed.ok() && options.console) {
    exposed = CheckExposure("console", *options.console, options);
  }
  if (exposed.ok() && options.ext_proc) {
    exposed = CheckExposure("ext_proc", *options.ext_proc, options);
  }
  return exposed;
}

absl::Status CheckOtlp(const ServeOptions& options) {
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

absl::Status CheckExtProc(const ServeOptions& options) {
  if (!options.ext_proc) return absl::OkStatus();
  if (options.config.empty()) {
    return absl::InvalidArgumentError(
        "--ext_proc needs --config: external_processor in it states what is guarded");
  }
  if (options.read_only) {
    return absl::InvalidArgumentError(
        "--read_only makes no reservation: it cannot be combined with --ext_proc, whose every "
        "request needs one");
  }
  return absl::OkStatus();
}

absl::Status CheckStoredData(const ServeOptions& options) {
  if (options.read_only && options.store.kind != StoreAddress::Kind::kPostgres) {
    return absl::InvalidArgumentError(
        "--read_only needs a Postgres store: a SQLite file belongs to one process");
  }
  if (options.store.accept_empty && options.store.kind != StoreAddress::Kind::kRedis) {
    return absl::InvalidArgumentError(
        "--accept_empty_store is for Redis: --store=redis://...; a Postgres schema needs "
        "`idempotencyd migrate`, and a SQLite file is made if it is missing");
  }
  if (options.sealing.accept_unsealed && options.sealing.key_ring.empty()) {
    return absl::InvalidArgumentError(
        "--accept_unsealed needs --keyring: without it nothing is sealed");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckServe(const ServeOptions& options) {
  if (absl::Status ext_proc = CheckExtProc(options); !ext_proc.ok()) return ext_proc;
  if (absl::Status tls = CheckTls(options.tls); !tls.ok()) return tls;
  if (absl::Status exposed = CheckExposure(options); !exposed.ok()) return exposed;
  if (absl::Status otlp = CheckOtlp(options); !otlp.ok()) return otlp;
  return CheckStoredData(options);
}

absl::Status CheckStatements(const ServeOptions& options) {
  if (options.store.kind == StoreAddress::Kind::kPostgres) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--statements needs a Postgres store: --store=postgresql://...");
}

absl::Status CheckClockMargin(const ServeOptions& options) {
  // A store without it has the default.
  if (options.store.clock_margin == StoreAddress::kDefaultClockMargin) return absl::OkStatus();
  if (options.store.kind == StoreAddress::Kind::kPostgres &&
      options.store.statements != PostgresStatementMode::kBatched) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "--clock_margin has no effect: it is for single-row statements, --store=postgresql://... "
      "without --statements=batched");
}

absl::Status CheckMaintenance(const StoreAddress& maintenance, const ServeOptions& options) {
  if (maintenance.kind != StoreAddress::Kind::kPostgres ||
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
  return absl::OkStatus();
}

}  // namespace idempotency::internal
