#include "server/store/postgres/schema/migrator.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

#include "core/absl_view.h"
#include "core/sha256.h"
#include "server/store/postgres/connection/sql_state.h"
#include "server/store/postgres/schema/distribution.h"
#include "server/store/postgres/schema/lock_wait.h"
#include "server/store/postgres/schema/roles.h"
#include "server/store/postgres/statements/batched.h"
#include "server/store/postgres/statements/single_row.h"

namespace idempotency::internal {
namespace {

// lz4 for large values is available since 14.
constexpr int kMinServerVersion = 140000;
// SQLSTATE of a lock timeout.
constexpr std::string_view kLockNotAvailable = "55P03";
// What reads a large table takes its time.
constexpr absl::Duration kMigrationTimeout = absl::Minutes(30);
// For a CONCURRENT statement, which blocks nobody, and would begin again after it was cancelled.
constexpr absl::Duration kConcurrentTimeout = absl::Hours(7 * 24);

constexpr std::string_view kCreateHistory = R"sql(
CREATE TABLE schema_migrations (
  version integer PRIMARY KEY CHECK (version > 0),
  name text NOT NULL,
  -- SHA-256 of the file that was applied: shows one edited afterwards.
  checksum text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
)
)sql";

constexpr std::string_view kAddServesFrom =
    "ALTER TABLE schema_migrations ADD COLUMN IF NOT EXISTS serves_from integer";

// Between two checks whether another migration is over.
constexpr absl::Duration kMigrationTurnPause = absl::Milliseconds(100);

// Without its comments. Each ends with ";" at the end of a line.
std::vector<std::string> StatementsOf(std::string_view script) {
  std::vector<std::string> statements;
  std::string statement;
  for (const absl::string_view line : absl::StrSplit(AbslView(script), '\n')) {
    if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "--")) continue;
    absl::StrAppend(&statement, line, "\n");
    if (!absl::EndsWith(line, ";")) continue;
    statements.push_back(std::exchange(statement, {}));
  }
  return statements;
}

// Those that a store executes.
std::vector<PostgresStatement> StatementsToPlan(const PostgresOptions& options) {
  const PostgresStatements batched(options.clock_sql);
  if (options.statements == PostgresStatementMode::kBatched) return batched.all();
  std::vector<PostgresStatement> statements = SingleRowStatements(options.clock_sql).all();
  for (const PostgresStatement* const of_both :
       {&batched.begin_session, &batched.read_schema, &batched.probe_commit, &batched.read_audit,
        &batched.read_newest_audit, &batched.read_audit_of_record}) {
    statements.push_back(*of_both);
  }
  return statements;
}

// A step of the wall clock neither ends nor prolongs it.
using TimePoint = std::chrono::steady_clock::time_point;
TimePoint EndOfPatience() {
  return std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(kMigrationPatience);
}

// Whether another session's lock or change made it fail, so that another try may not.
bool IsInTheWay(const absl::Status& failure) {
  return absl::IsDeadlineExceeded(failure) || absl::IsAborted(failure);
}

// Of a failure that another try may undo, its own.
absl::StatusCode CodeOf(const absl::Status& failure) {
  return IsInTheWay(failure) ? failure.code() : absl::StatusCode::kUnavailable;
}

absl::Status Failed(const Migration& migration, const absl::Status& failure) {
  return absl::Status(CodeOf(failure),
                      absl::StrCat("migration ", migration.version, "_", AbslView(migration.name),
                                   migration.outside_transaction
                                       ? " failed; its changes remain, and it can be repeated: "
                                       : " failed and was rolled back: ",
                                   failure.message()));
}

std::string ChecksumOf(const Migration& migration) {
  return absl::BytesToHexString(AbslView(AsBytes(Sha256(migration.up))));
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
  options_.application_name = "idempotencyd migrate";
}

absl::StatusOr<std::unique_ptr<PostgresConnection>> PostgresMigrator::OpenAlone() {
  if (absl::Status status = ValidatePostgresOptions(options_); !status.ok()) return status;
  PostgresOptions options = options_;
  options.lock_timeout = kMigrationLockTimeout;
  auto connection = PostgresConnection::Open(options, watchdog_);
  if (!connection.ok()) return connection.status();
  // As the login: the schema's owner is no superuser.
  if (absl::Status set = LetAutovacuumYield(**connection, kMigrationLockTimeout); !set.ok()) {
    return set;
  }
  if (absl::Status set = EndWithClient(**connection); !set.ok()) return set;
  if (absl::Status turn = AwaitTurn(**connection); !turn.ok()) return turn;
  if (absl::Status owner = ContinueAsOwner(**connection, options_.schema); !owner.ok()) {
    return owner;
  }
  return connection;
}

absl::Status PostgresMigrator::AwaitTurn(PostgresConnection& connection) const {
  // A statement that waited for the lock would block a concurrent index build.
  const std::string lock =
      absl::StrCat("SELECT pg_try_advisory_lock(", MigrationLock(options_.schema), ")");
  const TimePoint deadline = EndOfPatience();
  for (bool first = true;; first = false) {
    const auto locked = connection.ExecuteScript(lock);
    if (!locked.ok()) return locked.status();
    if (locked->Bool(0, 0)) return absl::OkStatus();
    const bool over = std::chrono::steady_clock::now() >= deadline;
    if (first || over) {
      const std::string holders = HoldersOfMigrationLock(connection, options_.schema);
      const std::string by = holders.empty() ? "" : absl::StrCat(" (", holders, ")");
      if (over) {
        return absl::UnavailableError(
            absl::StrCat("another migration of this schema", by,
                         " has been running for ten minutes: wait for it, or, if its process was "
                         "ended, SELECT pg_terminate_backend(PID)"));
      }
      spdlog::info("postgres: another migration of this schema{} runs; waiting for its end", by);
    }
    absl::SleepFor(kMigrationTurnPause);
  }
}

absl::Status PostgresMigrator::LockOutStores(PostgresConnection& connection) const {
  const auto locked = connection.ExecuteScript(
      absl::StrCat("SELECT pg_try_advisory_lock(", AbslView(kPostgresServeLock), ")"));
  if (!locked.ok()) return locked.status();
  // There is no key where there is no schema.
  if (locked->IsNull(0, 0) || locked->Bool(0, 0)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("an idempotencyd has sessions open on the postgres schema ", options_.schema,
                   ", and would continue to use it: stop every idempotencyd first"));
}

absl::StatusOr<int> PostgresMigrator::Persist(PostgresConnection& connection,
                                              absl::FunctionRef<absl::StatusOr<int>()> step) const {
  const TimePoint deadline = EndOfPatience();
  while (true) {
    absl::StatusOr<int> done = step();
    if (!IsInTheWay(done.status())) return done;
    const std::string remedy = RemedyForLockWait(connection, options_.schema);
    if (std::chrono::steady_clock::now() >= deadline) {
      return absl::UnavailableError(absl::StrCat(done.status().message(), "; ", remedy));
    }
    if (absl::IsAborted(done.status())) {
      spdlog::warn("postgres: another session made a change at the same time; trying again: {}",
                   std::string(done.status().message()));
    } else {
      spdlog::warn(
          "postgres: the migration waits for a lock that another session holds; trying again. "
          "Traffic continues. If the wait does not end: {}",
          remedy);
    }
    absl::SleepFor(kMigrationLockPause);
  }
}

absl::Status PostgresMigrator::GrantTo(const std::string& role) {
  auto connection = OpenAlone();
  if (!connection.ok()) return connection.status();
  const std::string to = absl::StrCat(" TO \"", absl::StrReplaceAll(role, {{"\"", "\"\""}}), "\"");
  const std::string from = to.substr(sizeof(" TO") - 1);
  const std::string& schema = options_.schema;
  const auto granted =
      (*connection)
          ->ExecuteScript(absl::StrCat(
              "GRANT USAGE ON SCHEMA ", schema, to,
              ";GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ", schema, to,
              // Only the schema's owner may change the schema.
              ";REVOKE INSERT, UPDATE, DELETE ON ", schema, ".schema_migrations FROM", from,
              // The log is only added to. (An older version of the schema has none.)
              ";DO $$ BEGIN IF to_regclass('", schema, ".audit_log') IS NOT NULL THEN",
              " REVOKE UPDATE, DELETE ON ", schema, ".audit_log FROM", from, ";",
              " REVOKE INSERT, UPDATE, DELETE ON ", schema, ".audit_key FROM", from, ";",
              " END IF; END $$"));
  if (granted.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("cannot grant the use of the postgres schema ",
                                                    schema, to, ": ", granted.status().message()));
}

absl::Status PostgresMigrator::CreateRoles(const std::string& prefix) {
  auto connection = OpenAlone();
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<int> done = Persist(**connection, [&]() -> absl::StatusOr<int> {
    absl::Status made = CreatePostgresRoles(**connection, options_.schema, prefix);
    if (!made.ok()) return made;
    return 0;
  });
  const absl::Status& failure = done.status();
  if (failure.ok() || failure.code() == absl::StatusCode::kInvalidArgument ||
      failure.code() == absl::StatusCode::kFailedPrecondition || (*connection)->lost()) {
    return failure;
  }
  return absl::FailedPreconditionError(absl::StrCat("cannot make the roles of the postgres schema ",
                                                    options_.schema, ": ", failure.message()));
}

absl::Status PostgresMigrator::Distribute() {
  auto connection = OpenAlone();
  if (!connection.ok()) return connection.status();
  if (absl::Status status = CheckCitus(**connection); !status.ok()) return status;
  const absl::StatusOr<bool> distributed = IsDistributed(**connection, options_.schema);
  if (!distributed.ok()) return distributed.status();
  if (*distributed) return absl::OkStatus();
  if (absl::Status status = LockOutStores(**connection); !status.ok()) return status;
  return DistributeTables(**connection, options_.schema);
}

absl::StatusOr<std::vector<int>> PostgresMigrator::Up() {
  auto connection = OpenAlone();
  if (!connection.ok()) return connection.status();
  if (absl::Status status = CheckServer(**connection); !status.ok()) return status;
  std::vector<int> versions;
  while (true) {
    // No connection can have waited for a missing schema.
    const bool alone = !versions.empty() && versions.front() == 1;
    const absl::StatusOr<int> version =
        Persist(**connection, [&] { return StepUp(**connection, alone); });
    if (!version.ok()) return version.status();
    if (*version == 0) return versions;
    versions.push_back(*version);
  }
}

absl::StatusOr<std::vector<int>> PostgresMigrator::Down(int target) {
  if (target < 0) {
    return absl::InvalidArgumentError("migrate down: the target must not be negative");
  }
  auto connection = OpenAlone();
  if (!connection.ok()) return connection.status();
  if (absl::Status status = LockOutStores(**connection); !status.ok()) return status;
  std::vector<int> versions;
  while (true) {
    const absl::StatusOr<int> version =
        Persist(**connection, [&] { return StepDown(**connection, target); });
    if (!version.ok()) return version.status();
    if (*version == 0) return versions;
    versions.push_back(*version);
  }
}

absl::StatusOr<std::vector<MigrationState>> PostgresMigrator::Status() {
  if (absl::Status status = ValidatePostgresOptions(options_); !status.ok()) return status;
  auto connection = PostgresConnection::Open(options_, watchdog_);
  if (!connection.ok()) return connection.status();
  absl::StatusOr<Installed> installed = Read(**connection);
  if (!installed.ok()) return installed.status();
  const std::vector<Applied> all = installed->history;
  LeaveOutHarmless(installed->history);
  if (absl::Status status = Judge(*installed); !status.ok()) return status;
  std::vector<MigrationState> states;
  for (std::size_t i = 0; i < migrations_.size(); ++i) {
    MigrationState state;
    state.version = migrations_[i].version;
    state.name = std::string(migrations_[i].name);
    if (i < installed->history.size()) {
      state.applied = true;
      state.applied_at = installed->history[i].applied_at;
    }
    states.push_back(std::move(state));
  }
  for (std::size_t i = installed->history.size(); i < all.size(); ++i) {
    states.push_back({all[i].version, all[i].name, true, /*newer=*/true, all[i].applied_at});
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
  for (const PostgresStatement& statement : StatementsToPlan(options_)) {
    const std::string state = (*connection)->TryPrepare(statement);
    if (state.empty()) continue;
    if ((*connection)->lost()) return absl::UnavailableError("postgres session lost");
    if (state == kLockNotAvailable) return absl::UnavailableError("a migration runs");
    if (!IsLasting(state)) {
      return absl::UnavailableError(absl::StrCat("postgres cannot prepare `", statement.name,
                                                 "` now (SQLSTATE ", state, ")"));
    }
    return absl::FailedPreconditionError(
        absl::StrCat("postgres schema ", options_.schema, " is recorded at version ",
                     migrations_.size(), " but cannot run `", statement.name, "` (SQLSTATE ", state,
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
    // Not a fault of the schema.
    if (connection.lost()) return absl::UnavailableError("postgres session lost");
    if (IsInTheWay(rows.status())) return rows.status();
    if (!IsLasting(SqlStateOf(rows.status()))) {
      return absl::UnavailableError(absl::StrCat(
          "cannot read ", schema, ".schema_migrations now: ", rows.status().message()));
    }
    return absl::FailedPreconditionError(
        absl::StrCat("postgres schema ", schema,
                     " has a schema_migrations that this program did not create or that",
                     " this role may not read (", rows.status().message(),
                     "): GRANT it a role of `idempotencyd migrate --create_roles`, or name another"
                     " schema in the URL, as options=-csearch_path%3DNAME"));
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
                     " contains tables that no migration of this program created: name another "
                     "schema in the URL, as options=-csearch_path%3DNAME, or empty this one"));
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
    return wrong("is at version ", history.back().version,
                 ", this program supports versions up to ", migrations_.size(),
                 ": run a newer idempotencyd");
  }
  for (std::size_t i = 0; i < history.size(); ++i) {
    const Migration& known = migrations_[i];
    if (history[i].version != known.version) {
      return wrong("has migration ", history[i].version, " but lacks ", known.version,
                   ": it was changed by hand; restore it from a backup");
    }
    if (history[i].name != AbslView(known.name) || history[i].checksum != ChecksumOf(known)) {
      return wrong("has a migration ", known.version,
                   " whose text differs from this program's: it belongs to a build that was never "
                   "released; restore it from a backup, or name another schema in the URL, as "
                   "options=-csearch_path%3DNAME");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int> PostgresMigrator::StepUp(PostgresConnection& connection, bool alone) const {
  absl::StatusOr<Installed> installed = Read(connection);
  if (!installed.ok()) return installed.status();
  LeaveOutHarmless(installed->history);
  if (absl::Status status = Judge(*installed); !status.ok()) return status;
  if (installed->history.size() == migrations_.size()) return 0;
  const Migration& next = migrations_[installed->history.size()];
  if (next.outside_transaction) return ApplyOutside(connection, next, alone);
  if (absl::Status status = connection.Begin(); !status.ok()) return status;
  return EndTransaction(connection, ApplyNext(connection, *installed));
}

std::string PostgresMigrator::NoteApplied(const Migration& migration) const {
  return absl::StrCat(
      "INSERT INTO schema_migrations (version, name, checksum, serves_from) VALUES (",
      migration.version, ", '", AbslView(migration.name), "', '", ChecksumOf(migration), "', ",
      migration.serves_from, ")");
}

absl::StatusOr<int> PostgresMigrator::ApplyNext(PostgresConnection& connection,
                                                const Installed& installed) const {
  const Migration& next = migrations_[installed.history.size()];
  std::vector<std::string> scripts;
  if (!installed.schema_exists) scripts.push_back(absl::StrCat("CREATE SCHEMA ", options_.schema));
  if (!installed.has_history) scripts.emplace_back(kCreateHistory);
  scripts.emplace_back(next.up);
  scripts.emplace_back(kAddServesFrom);
  scripts.push_back(NoteApplied(next));
  for (const std::string& script : scripts) {
    if (auto done = connection.ExecuteScript(script); !done.ok()) {
      return Failed(next, done.status());
    }
  }
  return next.version;
}

absl::StatusOr<int> PostgresMigrator::ApplyOutside(PostgresConnection& connection,
                                                   const Migration& next, bool alone) const {
  std::vector<std::string> statements = StatementsOf(next.up);
  if (alone) {
    for (std::string& statement : statements) {
      absl::StrReplaceAll({{" CONCURRENTLY ", " "}}, &statement);
    }
  }
  statements.emplace_back(kAddServesFrom);
  statements.push_back(NoteApplied(next));
  for (const std::string& statement : statements) {
    // A CONCURRENT statement blocks no connection while it waits, and it waits for every
    // older transaction.
    const bool waits = absl::StrContains(statement, " CONCURRENTLY ");
    if (waits) {
      if (auto set = connection.ExecuteScript("SET lock_timeout TO 0"); !set.ok()) {
        return set.status();
      }
      if (auto set = connection.SetStatementTimeout(kConcurrentTimeout); !set.ok()) return set;
    }
    const auto done = connection.ExecuteScript(statement);
    if (waits) {
      absl::Status set =
          connection
              .ExecuteScript(absl::StrCat("SET lock_timeout TO ",
                                          absl::ToInt64Milliseconds(kMigrationLockTimeout)))
              .status();
      set.Update(connection.SetStatementTimeout(options_.statement_timeout));
      if (done.ok() && !set.ok()) return set;
    }
    if (!done.ok()) return Failed(next, done.status());
  }
  return next.version;
}

absl::StatusOr<int> PostgresMigrator::StepDown(PostgresConnection& connection, int target) const {
  if (absl::Status status = connection.Begin(); !status.ok()) return status;
  const auto step = [&]() -> absl::StatusOr<int> {
    const absl::StatusOr<Installed> installed = Read(connection);
    if (!installed.ok()) return installed.status();
    if (absl::Status status = Judge(*installed); !status.ok()) return status;
    if (static_cast<int>(installed->history.size()) <= target) return 0;
    const Migration& last = migrations_[installed->history.size() - 1];
    for (const std::string& script :
         {std::string(last.down),
          absl::StrCat("DELETE FROM schema_migrations WHERE version = ", last.version)}) {
      if (auto done = connection.ExecuteScript(script); !done.ok()) {
        return absl::Status(CodeOf(done.status()),
                            absl::StrCat("reverting migration ", last.version,
                                         " failed and was rolled back: ", done.status().message()));
      }
    }
    return last.version;
  };
  return EndTransaction(connection, step());
}

}  // namespace idempotency::internal
