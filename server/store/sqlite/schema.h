#ifndef IDEMPOTENCY_SERVER_STORE_SQLITE_SCHEMA_H_
#define IDEMPOTENCY_SERVER_STORE_SQLITE_SCHEMA_H_

#include <string>

#include "absl/status/status.h"

#include "server/store/sqlite/connection.h"

namespace idempotency::internal {

// Checks whether this program may use the file: empty, or created by it.
// Changes nothing. FAILED_PRECONDITION, with what to do, for a file that is not
// a database, is damaged, belongs to another program, or has a newer schema.
// `path` is for the message.
absl::Status CheckSqliteSchema(SqliteConnection& connection, const std::string& path);

// Reads the whole file. FAILED_PRECONDITION if any of it is damaged.
absl::Status CheckSqliteFile(SqliteConnection& connection, const std::string& path);

// Migrates a file that CheckSqliteSchema accepted to the newest schema, in one
// transaction. Idempotent.
absl::Status MigrateSqliteSchema(SqliteConnection& connection, const std::string& path);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_SQLITE_SCHEMA_H_
