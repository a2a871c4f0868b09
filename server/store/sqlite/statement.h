#ifndef IDEMPOTENCY_SERVER_STORE_SQLITE_STATEMENT_H_
#define IDEMPOTENCY_SERVER_STORE_SQLITE_STATEMENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"

struct sqlite3_stmt;

namespace idempotency::internal {

// One prepared statement. Parameters are numbered from 1, columns from 0, as
// SQLite does. Thread-compatible; must not outlive its connection.
//
//   SqliteStatement::Run run(statement);
//   run->Bind(1, id);
//   absl::StatusOr<bool> row = run->Step();
class SqliteStatement {
 public:
  SqliteStatement() = default;
  // Takes ownership of the result of sqlite3_prepare_v3.
  explicit SqliteStatement(sqlite3_stmt* statement) : statement_(statement) {}

  // One execution. Its destructor resets the statement and clears the bindings,
  // so that no read transaction stays open and no pointer outlives its owner.
  class Run {
   public:
    explicit Run(SqliteStatement& statement) : statement_(statement) {}
    ~Run() { statement_.Reset(); }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    SqliteStatement* operator->() { return &statement_; }
    SqliteStatement& operator*() { return statement_; }

   private:
    SqliteStatement& statement_;
  };

  // Bound values are not copied: they must outlive the Run. The next Step
  // returns a failure.
  void Bind(int index, std::int64_t value);
  void Bind(int index, absl::Time value);
  void Bind(int index, const Uuid& value);
  void Bind(int index, const std::optional<Uuid>& value);
  void BindText(int index, std::string_view value);
  void BindBlob(int index, std::string_view value);
  void BindNull(int index);

  // True: there is a row. False: done. An error is STORE_UNAVAILABLE, and
  // logged.
  absl::StatusOr<bool> Step();
  // Step for a write that has to change exactly one row; any other number is a
  // failure like any other.
  absl::Status ChangeOne();
  // Whether the last Step failed because a page of the file is damaged. SQLite refuses every
  // further write of the transaction, until it is rolled back.
  bool met_damage() const;

  // The columns of the current row. Nothing is converted: nullopt for a value of another
  // type, or a UUID that does not have 16 bytes.
  bool IsNull(int column) const;
  std::optional<std::int64_t> Integer(int column) const;
  std::optional<absl::Time> Time(int column) const;
  std::optional<Uuid> UuidBlob(int column) const;
  // Valid until the next Step or the end of the Run.
  std::optional<std::string_view> Text(int column) const;
  std::optional<std::string_view> Blob(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };

  void Note(int result);
  void Reset();

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  // The first failure of this run.
  int failure_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_SQLITE_STATEMENT_H_
