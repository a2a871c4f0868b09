#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_SCHEMA_LOCK_WAIT_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_SCHEMA_LOCK_WAIT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "server/store/postgres/connection/connection.h"

namespace idempotency::internal {

// Lets Postgres cancel an autovacuum that holds a lock for which a statement of `connection` waits,
// well within `lock_timeout`. By default the statement gives up first: Postgres does that after
// deadlock_timeout, 1 s. No effect unless the login may set it: a superuser, or since Postgres 15
// a role with GRANT SET ON PARAMETER deadlock_timeout. An autovacuum against wraparound never
// gives way.
absl::Status LetAutovacuumYield(PostgresConnection& connection, absl::Duration lock_timeout);

// Ends the session some 10 s after its client was lost, also during a statement: otherwise a killed
// migration keeps its lock until the statement ends. No effect on a platform where Postgres cannot
// see that (client_connection_check_interval).
absl::Status EndWithClient(PostgresConnection& connection);

// The lock that a migration of `schema` holds: a key for Postgres' advisory locks, as SQL.
std::string MigrationLock(const std::string& schema);

// The sessions that hold it: "PID 4711". "" if none does, or it cannot be found out.
std::string HoldersOfMigrationLock(PostgresConnection& connection, const std::string& schema);

// What an operator can do about a lock of a table of `schema` that another session holds; names
// the vacuums that run there. Every role may see these.
std::string RemedyForLockWait(PostgresConnection& connection, const std::string& schema);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_SCHEMA_LOCK_WAIT_H_
