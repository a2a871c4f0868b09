#ifndef IDEMPOTENCY_SERVER_STORE_SQLITE_CONNECTION_H_
#define IDEMPOTENCY_SERVER_STORE_SQLITE_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/store/sqlite/statement.h"

struct sqlite3;

namespace idempotency::internal {

// One connection to one database file. Thread-compatible; must outlive its
// statements. Failures are STORE_UNAVAILABLE, and logged.
class SqliteConnection {
 public:
  // Nothing is open.
  SqliteConnection() = default;

  // Opens `path` for reading and writing and creates an empty file if there is
  // none. Reads nothing yet: a fault of an existing file shows at the first
  // statement. Statements wait up to `busy_timeout` for other programs. Returns
  // the SQLite result code, 0 on success.
  int Open(const std::string& path, absl::Duration busy_timeout);

  // SyncSqliteLog().
  absl::Status SyncLog();
  // Runs statements that return no rows, separated by semicolons.
  absl::Status Execute(const char* sql);
  absl::StatusOr<SqliteStatement> Prepare(const char* sql);
  // The first column of the first row, which is of that type.
  absl::StatusOr<std::int64_t> ReadInteger(const char* sql);
  absl::StatusOr<std::string> ReadText(const char* sql);

  // Whether the file was moved, removed or replaced since it was opened.
  bool HasMoved();

  bool in_transaction() const;
  // The medium or its permissions do not allow writing.
  bool read_only() const;
  // The primary result code of the last failure.
  int error_code() const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };

  std::unique_ptr<sqlite3, Close> database_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_SQLITE_CONNECTION_H_
