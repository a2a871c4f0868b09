#include "server/store/sqlite/connection.h"

#include <sqlite3.h>

#include "core/sqlite_log.h"
#include "server/store/sqlite/error.h"

namespace idempotency::internal {

void SqliteConnection::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

int SqliteConnection::Open(const std::string& path, absl::Duration busy_timeout) {
  sqlite3* database = nullptr;
  // No mutex of SQLite: each connection is used under one of this program's.
  const int result =
      sqlite3_open_v2(path.c_str(), &database,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  // Even a failed open leaves a handle to close.
  database_.reset(database);
  if (result != SQLITE_OK) return result;
  sqlite3_extended_result_codes(database, 1);
  sqlite3_busy_timeout(database, static_cast<int>(absl::ToInt64Milliseconds(busy_timeout)));
  // Nothing but the SQL of this program writes to the schema.
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  return SQLITE_OK;
}

absl::Status SqliteConnection::SyncLog() {
  const int result = SyncSqliteLog(database_.get());
  return result == SQLITE_OK ? absl::OkStatus() : SqliteUnavailable(result);
}

bool SqliteConnection::HasMoved() {
  int moved = 0;
  const int result = sqlite3_file_control(database_.get(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  return result != SQLITE_OK || moved != 0;
}

absl::Status SqliteConnection::Execute(const char* sql) {
  const int result = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
  return result == SQLITE_OK ? absl::OkStatus() : SqliteUnavailable(result);
}

absl::StatusOr<SqliteStatement> SqliteConnection::Prepare(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  const int result =
      sqlite3_prepare_v3(database_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (result != SQLITE_OK) return SqliteUnavailable(result);
  return SqliteStatement(statement);
}

absl::StatusOr<std::int64_t> SqliteConnection::ReadInteger(const char* sql) {
  absl::StatusOr<SqliteStatement> statement = Prepare(sql);
  if (!statement.ok()) return statement.status();
  SqliteStatement::Run run(*statement);
  const absl::StatusOr<bool> row = run->Step();
  if (!row.ok()) return row.status();
  const auto value = *row ? run->Integer(0) : std::nullopt;
  return value ? absl::StatusOr<std::int64_t>(*value) : SqliteUnavailable(SQLITE_MISMATCH);
}

absl::StatusOr<std::string> SqliteConnection::ReadText(const char* sql) {
  absl::StatusOr<SqliteStatement> statement = Prepare(sql);
  if (!statement.ok()) return statement.status();
  SqliteStatement::Run run(*statement);
  const absl::StatusOr<bool> row = run->Step();
  if (!row.ok()) return row.status();
  const auto value = *row ? run->Text(0) : std::nullopt;
  return value ? absl::StatusOr<std::string>(*value) : SqliteUnavailable(SQLITE_MISMATCH);
}

bool SqliteConnection::in_transaction() const {
  return sqlite3_get_autocommit(database_.get()) == 0;
}

bool SqliteConnection::read_only() const {
  return sqlite3_db_readonly(database_.get(), "main") == 1;
}

int SqliteConnection::error_code() const { return sqlite3_errcode(database_.get()) & 0xff; }

}  // namespace idempotency::internal
