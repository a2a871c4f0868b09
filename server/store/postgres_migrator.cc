#include "server/store/postgres_migrator.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/sha256.h"
#include "server/store/postgres_statements.h"

namespace idempotency {
namespace {

// lz4 for large values came with 14.
constexpr int kMinServerVersion = 140000;
// An index over a large table takes its time.
constexpr absl::Duration kMigrationTimeout = absl::Minutes(30);

constexpr std::string_view kCreateHistory = R"sql(
CREATE TABLE schema_migrations (
  version integer PRIMARY KEY CHECK (version > 0),
  name text NOT NULL,
  -- SHA-256 of the file that was applied: shows one edited afterwards.
  checksum text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
)
)sql";

std::string ChecksumOf(const Migration& migration) {
  const Sha256Digest digest = Sha256(migration.up);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

// Ends the transaction, with Commit if `outcome` is OK.
template <typename Outcome>
Outcome EndTransaction(PostgresConnection& connection, Outcome outcome) {
  const absl::Status ended = outcome.ok() ? connection.Commit() : connection.Rollback();
  if (outcome.ok() && !ended.ok()) return ended;
  return outcome;
}

}  // namespace

PostgresMigrator::PostgresMigrator(PostgresOptions options, absl::Span<const Migration> migrations)
    : options_(std::move(options)), migrations_(migrations) {
  options_.statement_timeout = std::max(options_.statement_timeout, kMigrationTimeout);
}

absl::StatusOr<std::vector<int>> PostgresMigrator::Up() {
  if (absl::Status status = ValidatePostgresOptions(options_); !status.ok()) return status;
  auto connection = PostgresConnection::Open(options_, watchdog_);
  if (!connection.ok()) return connection.status();
  if (absl::Status status = CheckServer(**connection); !status.ok()) return status;
  std::vector<int> versions;
  while (true) {
    const absl::StatusOr<int> version = StepUp(**connection);
    if (!version.ok()) return version.status();
    if (*version == 0) return versions;
    versions.push_back(*version);
  }
}

absl::StatusOr<std::vector<int>> PostgresMigrator::Down(int target) {
  if (absl::Status status = ValidatePostgresOptions(options_); !status.ok()) return status;
  if (target < 0) {
    return absl::InvalidArgumentError("migrate down: the target must not be negative");
  }
  auto connection = PostgresConnection::Open(options_, watchdog_);
  if (!connection.ok()) return connection.status();
  std::vector<int> versions;
  while (true) {
    const absl::StatusOr<int> version = StepDown(**connection, target);
    if (!version.ok()) return version.status();
    if (*version == 0) return versions;
    versions.push_back(*version);
  }
}

absl::StatusOr<std::vector<MigrationState>> PostgresMigrator::Status() {
  if (absl::Status status = ValidatePostgresOptions(options_); !status.ok()) return status;
  auto connection = PostgresConnection::Open(options_, watchdog_);
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<Installed> installed = Read(**connection);
  if (!installed.ok()) return installed.status();
  if (absl::Status status = Judge(*installed); !status.ok()) return status;
  std::vector<MigrationState> states;
  for (std::size_t i = 0; i < migrations_.size(); ++i) {
    MigrationState state{migrations_[i].version, std::string(migrations_[i].name), false, ""};
    if (i < installed->history.size()) {
      state.applied = true;
      state.applied_at = installed->history[i].applied_at;
    }
    states.push_back(std::move(state));
  }
  return states;
}

absl::Status PostgresMigrator::CheckSchema() {
  if (absl::Status status = ValidatePostgresOptions(options_); !status.ok()) return status;
  auto connection = PostgresConnection::Open(options_, watchdog_);
  if (!connection.ok()) return connection.status();
  if (absl::Status status = CheckServer(**connection); !status.ok()) return status;
  absl::StatusOr<Installed> installed = Read(**connection);
  if (!installed.ok()) return installed.status();
  LeaveOutHarmless(installed->history);
  if (absl::Status status = Judge(*installed); !status.ok()) return status;
  if (installed->history.size() < migrations_.size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "postgres schema ", options_.schema, " is at version ", installed->history.size(),
        ", this program needs ", migrations_.size(), ": run `idempotencyd migrate`"));
  }
  const PostgresStatements statements(options_.clock_sql);
  for (const PostgresStatement* const statement : statements.OverTables()) {
    const std::string state = (*connection)->TryPrepare(*statement);
    if (state.empty()) continue;
    if ((*connection)->lost()) return absl::UnavailableError("postgres session lost");
    return absl::FailedPreconditionError(absl::StrCat(
        "postgres schema ", options_.schema, " says that it is at version ", migrations_.size(),
        " but cannot run `", statement->name, "` (SQLSTATE ", state,
        "): it was changed by hand, or this role lacks privileges on its tables"));
  }
  return absl::OkStatus();
}

absl::Status PostgresMigrator::CheckServer(PostgresConnection& connection) const {
  if (connection.server_version() < kMinServerVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "postgres ", connection.server_version() / 10000, " is too old: 14 or newer is needed"));
  }
  const auto encoding = connection.ExecuteScript("SHOW server_encoding");
  if (!encoding.ok()) return encoding.status();
  if (encoding->View(0, 0) != "UTF8") {
    return absl::FailedPreconditionError(
        "the postgres database is not encoded in UTF8: create one that is");
  }
  return absl::OkStatus();
}

absl::StatusOr<PostgresMigrator::Installed> PostgresMigrator::Read(
    PostgresConnection& connection) const {
  const std::string& schema = options_.schema;
  const auto facts = connection.ExecuteScript(absl::StrCat(
      "SELECT to_regnamespace('", schema,
      "') IS NOT NULL,"
      " EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = to_regnamespace('",
      schema,
      "')"
      "   AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relname <> 'schema_migrations'),"
      " EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = to_regnamespace('",
      schema,
      "')"
      "   AND c.relkind = 'r' AND c.relname = 'schema_migrations')"));
  if (!facts.ok()) return facts.status();
  Installed installed;
  installed.schema_exists = facts->Bool(0, 0);
  installed.has_tables = facts->Bool(0, 1);
  installed.has_history = facts->Bool(0, 2);
  if (!installed.has_history) return installed;
  const auto rows =
      connection.ExecuteScript(absl::StrCat("SELECT version, name, checksum, applied_at,"
                                            // Not there in the history of early builds.
                                            " coalesce((to_jsonb(m) ->> 'serves_from')::integer,"
                                            " version) FROM ",
                                            schema, ".schema_migrations m ORDER BY version"));
  if (!rows.ok()) {
    // Says nothing about the schema.
    if (connection.lost()) return absl::UnavailableError("postgres session lost");
    return absl::FailedPreconditionError(absl::StrCat(
        "postgres schema ", schema, " has a schema_migrations that is not this program's or that",
        " this role may not read (", rows.status().message(), "): choose another schema"));
  }
  for (int row = 0; row < rows->rows(); ++row) {
    installed.history.push_back({static_cast<int>(rows->Integer(row, 0)), rows->Text(row, 1),
                                 rows->Text(row, 2), rows->Text(row, 3),
                                 static_cast<int>(rows->Integer(row, 4))});
  }
  return installed;
}

absl::Status PostgresMigrator::Judge(const Installed& installed) const {
  if (installed.history.empty() && installed.has_tables) {
    return absl::FailedPreconditionError(
        absl::StrCat("postgres schema ", options_.schema,
                     " holds tables that no migration of this program made: choose another schema, "
                     "or empty this one"));
  }
  return JudgeHistory(installed.history);
}

void PostgresMigrator::LeaveOutHarmless(std::vector<Applied>& history) const {
  const int known = static_cast<int>(migrations_.size());
  const auto is_harmless = [known](const Applied& newer) {
    return newer.version <= known || newer.serves_from <= known;
  };
  if (!std::all_of(history.begin(), history.end(), is_harmless)) return;
  while (!history.empty() && history.back().version > known) history.pop_back();
}

absl::Status PostgresMigrator::JudgeHistory(const std::vector<Applied>& history) const {
  const auto wrong = [this](const auto&... text) {
    return absl::FailedPreconditionError(
        absl::StrCat("postgres schema ", options_.schema, " ", text...));
  };
  if (!history.empty() && history.back().version > static_cast<int>(migrations_.size())) {
    return wrong("is at version ", history.back().version, ", this program knows only up to ",
                 migrations_.size(), ": run a newer idempotencyd");
  }
  for (std::size_t i = 0; i < history.size(); ++i) {
    const Migration& known = migrations_[i];
    if (history[i].version != known.version) {
      return wrong("has migration ", history[i].version, " but lacks ", known.version,
                   ": it was changed by hand; restore it from a backup");
    }
    if (history[i].name != AbslView(known.name) || history[i].checksum != ChecksumOf(known)) {
      return wrong("has a migration ", known.version,
                   " with another text than this program's: it belongs to a build that was never "
                   "released; restore it from a backup, or choose another schema");
    }
  }
  return absl::OkStatus();
}

absl::Status PostgresMigrator::Lock(PostgresConnection& connection) const {
  const auto locked = connection.ExecuteScript(
      absl::StrCat("SET LOCAL lock_timeout TO '60s';"
                   "SELECT pg_advisory_xact_lock(hashtextextended('idempotency migrate ",
                   options_.schema, "', 0))"));
  if (locked.ok()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("another migration of this schema has been running for a minute: wait for it (",
                   locked.status().message(), ")"));
}

absl::StatusOr<int> PostgresMigrator::StepUp(PostgresConnection& connection) const {
  if (absl::Status status = connection.Begin(); !status.ok()) return status;
  const auto step = [&]() -> absl::StatusOr<int> {
    if (absl::Status status = Lock(connection); !status.ok()) return status;
    const absl::StatusOr<Installed> installed = Read(connection);
    if (!installed.ok()) return installed.status();
    if (absl::Status status = Judge(*installed); !status.ok()) return status;
    if (installed->history.size() == migrations_.size()) return 0;
    return ApplyNext(connection, *installed);
  };
  return EndTransaction(connection, step());
}

absl::StatusOr<int> PostgresMigrator::ApplyNext(PostgresConnection& connection,
                                                const Installed& installed) const {
  const Migration& next = migrations_[installed.history.size()];
  std::vector<std::string> scripts;
  if (!installed.schema_exists) scripts.push_back(absl::StrCat("CREATE SCHEMA ", options_.schema));
  if (!installed.has_history) scripts.emplace_back(kCreateHistory);
  scripts.emplace_back(next.up);
  scripts.emplace_back(
      "ALTER TABLE schema_migrations ADD COLUMN IF NOT EXISTS serves_from integer");
  scripts.push_back(absl::StrCat(
      "INSERT INTO schema_migrations (version, name, checksum, serves_from) VALUES (", next.version,
      ", '", AbslView(next.name), "', '", ChecksumOf(next), "', ", next.serves_from, ")"));
  for (const std::string& script : scripts) {
    if (auto done = connection.ExecuteScript(script); !done.ok()) {
      return absl::UnavailableError(
          absl::StrCat("migration ", next.version, "_", AbslView(next.name),
                       " failed and was undone: ", done.status().message()));
    }
  }
  return next.version;
}

absl::StatusOr<int> PostgresMigrator::StepDown(PostgresConnection& connection, int target) const {
  if (absl::Status status = connection.Begin(); !status.ok()) return status;
  const auto step = [&]() -> absl::StatusOr<int> {
    if (absl::Status status = Lock(connection); !status.ok()) return status;
    const absl::StatusOr<Installed> installed = Read(connection);
    if (!installed.ok()) return installed.status();
    if (absl::Status status = Judge(*installed); !status.ok()) return status;
    if (static_cast<int>(installed->history.size()) <= target) return 0;
    const Migration& last = migrations_[installed->history.size() - 1];
    for (const std::string& script :
         {std::string(last.down),
          absl::StrCat("DELETE FROM schema_migrations WHERE version = ", last.version)}) {
      if (auto done = connection.ExecuteScript(script); !done.ok()) {
        return absl::UnavailableError(
            absl::StrCat("taking back migration ", last.version,
                         " failed and was undone: ", done.status().message()));
      }
    }
    return last.version;
  };
  return EndTransaction(connection, step());
}

}  // namespace idempotency
