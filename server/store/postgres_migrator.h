#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_MIGRATOR_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_MIGRATOR_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "core/socket_watchdog.h"
#include "migrations/migrations.h"
#include "server/store/postgres_connection.h"
#include "server/store/postgres_options.h"

namespace idempotency {

// One migration that this program knows, and whether the schema has it.
struct MigrationState {
  int version = 0;
  std::string name;
  bool applied = false;
  // By the server's clock, as it prints times; empty if not applied.
  std::string applied_at;
};

// Brings the Postgres schema to the version that this program speaks. Each
// migration is one transaction together with its row in schema_migrations, so
// a schema is never between two versions; all take one advisory lock, so any
// number of replicas may run it at once.
//
// Errors are for operators, and say what to do:
//   FAILED_PRECONDITION  the schema is older or newer than this program, is not
//                        this program's, or was changed by hand; or the server
//                        is too old
//   UNAVAILABLE          the server cannot be reached, or a migration failed
//
// Thread-compatible; each call opens a connection of its own.
class PostgresMigrator {
 public:
  explicit PostgresMigrator(PostgresOptions options,
                            absl::Span<const Migration> migrations = AllMigrations());

  // Applies what is missing; creates the schema if there is none. Answers the
  // versions applied, in order; none if all were there.
  absl::StatusOr<std::vector<int>> Up();
  // Takes back everything above `target`, 0 for everything. What the tables
  // held is lost. Answers the versions taken back, in order.
  absl::StatusOr<std::vector<int>> Down(int target);
  // Every migration that this program knows.
  absl::StatusOr<std::vector<MigrationState>> Status();
  // OK if this program can serve the schema: it lacks no migration, has no other
  // but newer ones that let programs of this version serve (Migration::serves_from),
  // and every statement of the store can be planned.
  absl::Status CheckSchema();

 private:
  // What the schema says of itself.
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
  // OK if the history is a beginning of what this program knows.
  absl::Status Judge(const Installed& installed) const;
  // Without newer migrations that let this program serve.
  void LeaveOutHarmless(std::vector<Applied>& history) const;
  absl::Status JudgeHistory(const std::vector<Applied>& history) const;
  absl::Status Lock(PostgresConnection& connection) const;
  // One migration in one transaction. Answers its version, 0 if there is
  // nothing left to do.
  absl::StatusOr<int> StepUp(PostgresConnection& connection) const;
  absl::StatusOr<int> StepDown(PostgresConnection& connection, int target) const;
  absl::StatusOr<int> ApplyNext(PostgresConnection& connection, const Installed& installed) const;
  absl::Status CheckServer(PostgresConnection& connection) const;

  SocketWatchdog watchdog_;
  PostgresOptions options_;
  absl::Span<const Migration> migrations_;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_MIGRATOR_H_
