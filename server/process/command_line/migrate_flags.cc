#include "server/process/command_line/migrate_flags.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "command_line/flag_set.h"
#include "server/process/command_line/flag_values.h"

namespace idempotency::internal {
namespace {

constexpr absl::string_view kMigrateSummary =
    R"(idempotencyd migrate --store=ADDRESS [flags]

Migrates the schema of a Postgres database to the version that this build serves.
A repeated run changes nothing, and a newer schema that this build may serve stays
unchanged. Traffic continues during the migration. `serve` migrates a SQLite file
when it opens it.

Prepares a Redis for `serve`: once before the first start, and after a loss of its
data that you accept.

Flags:
)";

constexpr absl::string_view kMigrateStoreHelp =
    R"(The Postgres schema to migrate: postgresql://..., a libpq URI; or the Redis to
prepare: redis://... and its variants. Required. Do not include the password: other
users of the machine can read command lines. Use PGPASSWORD or a PGPASSFILE, or
REDIS_PASSWORD. For sqlite:PATH there is nothing to do.)";

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
                  "missing, give the schema to the owner, and grant the others no more than\n"
                  "they need. Needs CREATEROLE. Set it with every migration.");
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

// The checks across flags.
absl::Status CheckMigrate(const MigrateOptions& options) {
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
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MigrateOptions> ParseMigrate(absl::Span<const absl::string_view> args) {
  MigrateOptions options;
  MigrateFlags flags(&options);
  if (const absl::Status parsed = flags.set.Parse(args); !parsed.ok()) return parsed;

  absl::StatusOr<StoreAddress> store = ParseStore(flags.store);
  if (!store.ok()) return store.status();
  options.store = *std::move(store);

  if (flags.to != MigrateFlags::kNewest) options.to = flags.to;
  if (const absl::Status checked = CheckMigrate(options); !checked.ok()) return checked;
  return options;
}

std::string MigrateHelp() {
  MigrateOptions options;
  return absl::StrCat(kMigrateSummary, MigrateFlags(&options).set.Help());
}

}  // namespace idempotency::internal
