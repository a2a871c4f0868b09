#ifndef IDEMPOTENCY_EXAMPLES_INBOX_DATABASE_H_
#define IDEMPOTENCY_EXAMPLES_INBOX_DATABASE_H_

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace inbox {

// A SQLite file: WAL, synchronous=FULL, so a commit is on disk when it returns. Shared with other
// processes. Thread-compatible.
class Database {
 public:
  // Opens the file, or creates it, and runs `schema`, which may run again. UNAVAILABLE if it
  // cannot.
  static absl::StatusOr<Database> Open(const std::string& path, const char* schema);

  sqlite3* handle() const { return handle_.get(); }
  bool Run(const char* sql) const;

 private:
  struct Closer {
    void operator()(sqlite3* handle) const { sqlite3_close(handle); }
  };

  std::unique_ptr<sqlite3, Closer> handle_;
};

// One prepared statement. It keeps the first failure: bind and step without checks, then call
// failed().
class Statement {
 public:
  Statement(const Database& database, const char* sql);
  ~Statement() { sqlite3_finalize(handle_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Bind(std::int64_t value);
  Statement& Bind(std::string_view text);

  // True when there is a row to read; false at the end and after a failure.
  bool Next();
  // Runs it to its end. False after a failure.
  bool Finish();
  bool failed() const { return rc_ != SQLITE_OK && rc_ != SQLITE_ROW && rc_ != SQLITE_DONE; }

  std::int64_t Int(int column) const { return sqlite3_column_int64(handle_, column); }
  // Bytes unchanged.
  std::string Text(int column) const;

 private:
  sqlite3_stmt* handle_ = nullptr;
  int bound_ = 0;
  int rc_ = SQLITE_OK;
};

// A write transaction that is rolled back unless it was committed. IMMEDIATE: its reads stay valid
// until its writes.
class Transaction {
 public:
  explicit Transaction(const Database& database)
      : database_(database), open_(database.Run("BEGIN IMMEDIATE")) {}
  ~Transaction() {
    if (open_) database_.Run("ROLLBACK");
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  bool open() const { return open_; }
  // False if it was not committed, or not for certain.
  bool Commit() {
    const bool committed = database_.Run("COMMIT");
    open_ = !committed;
    return committed;
  }

 private:
  const Database& database_;
  bool open_;
};

}  // namespace inbox

#endif  // IDEMPOTENCY_EXAMPLES_INBOX_DATABASE_H_
