#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_SCHEMA_MIGRATOR_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_SCHEMA_MIGRATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "migrations/migrations.h"
#include "postgres/socket_watchdog.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/options.h"

namespace idempotency::internal {

// How long a migration's statement waits for a lock: shorter than a store's statement does
// (PostgresOptions::lock_timeout), so that traffic behind it waits and does not fail.
inline constexpr absl::Duration kMigrationLockTimeout = absl::Milliseconds(500);
// The pause before it is tried again: traffic has most of the time.
inline constexpr absl::Duration kMigrationLockPause = absl::Seconds(2);
// How long it is tried. An operator must end a transaction that is open for longer.
inline constexpr absl::Duration kMigrationPatience = absl::Minutes(10);

// One migration, and whether the schema has it.
struct MigrationState {
  int version = 0;
  std::string name;
  bool applied = false;
  // Not of this program: a newer one's, under which this one may serve nevertheless.
  bool newer = false;
  // By the server's clock, as it prints times; empty if not applied.
  std::string applied_at;
};

// Migrates the Postgres schema to this program's version. Each migration is one
// transaction together with its row in schema_migrations, or statements that can be
// repeated, so that a schema is never between two versions; all take one advisory
// lock, so any number of replicas may run it at once.
//
// Traffic continues meanwhile: a statement waits for another connection's lock for no
// longer than kMigrationLockTimeout, since all traffic waits behind it, and is tried
// again until it gets it, or for kMigrationPatience. An autovacuum gives way if the login may
// set deadlock_timeout; else the operator reads which one to end.
//
// Errors are for operators, and contain what to do:
//   FAILED_PRECONDITION  the schema is older or newer than this program, is not
//                        this program's, or was changed by hand; the server
//                        is too old; or a daemon uses the schema that Down() is to
//                        revert
//   UNAVAILABLE          the server cannot be reached, a migration failed, or a statement did
//                        for a reason of the moment, such as a cancellation or a full disk
//
// Thread-compatible; each call opens its own connection.
class PostgresMigrator {
 public:
  explicit PostgresMigrator(PostgresOptions options,
                            absl::Span<const Migration> migrations = AllMigrations());

  // Applies the missing migrations; creates the schema if it does not exist.
  // Returns the versions applied, in order; empty if none was missing, or if the
  // schema is a newer one that this program may serve unchanged (CheckSchema).
  absl::StatusOr<std::vector<int>> Up();
  // Lets a role that does not own the schema serve it: the right to use the schema, and
  // to read and write its tables.
  absl::Status GrantTo(const std::string& role);
  // Makes the roles of the schema, named after `prefix` (server/store/postgres/schema/roles.h), and
  // gives the schema to its owner. May be repeated.
  absl::Status CreateRoles(const std::string& prefix);
  // Distributes the records over the nodes of Citus (distribution.h). Refused while a
  // store has connections on the schema: its statements would be the wrong ones afterwards.
  absl::Status Distribute();
  // Reverts every migration above `target`, 0 for all. The data of their tables is
  // lost. Refused while a store has connections on the schema, and no store gets one
  // until it is done. Returns the versions reverted, in order.
  absl::StatusOr<std::vector<int>> Down(int target);
  // Every migration of this program, and newer ones under which it may serve.
  absl::StatusOr<std::vector<MigrationState>> Status();
  // OK if this program can serve the schema: it lacks no migration, has no other
  // but newer ones that let programs of this version serve (Migration::serves_from),
  // and every statement of the store can be planned.
  absl::Status CheckSchema();

 private:
  // The schema's own data about its state.
  struct Applied {
    int version = 0;
    std::string name;
    std::string checksum;
    std::string applied_at;
    int serves_from = 0;
  };
  struct Installed {
    bool schema_exists = false;
    bool has_tables = false;
    bool has_history = false;
    std::vector<Applied> history;
  };

  absl::StatusOr<Installed> Read(PostgresConnection& connection) const;
  // OK if the history is a prefix of this program's migrations.
  absl::Status Judge(const Installed& installed) const;
  // Without newer migrations that let this program serve.
  void LeaveOutHarmless(std::vector<Applied>& history) const;
  absl::Status JudgeHistory(const std::vector<Applied>& history) const;
  // Connects, and takes the lock of this schema's migrations.
  // Continues as the owner of the schema where the login is a member of that role.
  absl::StatusOr<std::unique_ptr<PostgresConnection>> OpenAlone();
  // Returns with MigrationLock() held. UNAVAILABLE after kMigrationPatience.
  absl::Status AwaitTurn(PostgresConnection& connection) const;
  // Locks stores out of the schema, as long as the connection is open.
  absl::Status LockOutStores(PostgresConnection& connection) const;
  // Repeats a step for as long as other connections' locks block it.
  absl::StatusOr<int> Persist(PostgresConnection& connection,
                              absl::FunctionRef<absl::StatusOr<int>()> step) const;
  // One migration in one transaction. Returns its version, 0 if none is left.
  // `alone`: this call created the schema, and no connection uses it yet.
  absl::StatusOr<int> StepUp(PostgresConnection& connection, bool alone) const;
  absl::StatusOr<int> StepDown(PostgresConnection& connection, int target) const;
  absl::StatusOr<int> ApplyNext(PostgresConnection& connection, const Installed& installed) const;
  // The same without a transaction around it.
  absl::StatusOr<int> ApplyOutside(PostgresConnection& connection, const Migration& next,
                                   bool alone) const;
  std::string NoteApplied(const Migration& migration) const;
  absl::Status CheckServer(PostgresConnection& connection) const;

  SocketWatchdog watchdog_;
  PostgresOptions options_;
  absl::Span<const Migration> migrations_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_SCHEMA_MIGRATOR_H_
