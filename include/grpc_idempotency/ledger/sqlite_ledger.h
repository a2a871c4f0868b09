#ifndef GRPC_IDEMPOTENCY_LEDGER_SQLITE_LEDGER_H_
#define GRPC_IDEMPOTENCY_LEDGER_SQLITE_LEDGER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/ledger/completion_ledger.h"
#include "grpc_idempotency/ledger/ledger_commit.h"
#include "grpc_idempotency/ledger/ledger_row.h"
#include "grpc_idempotency/log_sink.h"

struct sqlite3;

namespace idempotency {

// For Execution::RecordInTransaction: writes the row within the open transaction of `database`;
// FAILED_PRECONDITION if there is none, or if it writes a second file too. If it does not return
// OK, the transaction has been rolled back, and each later write of the handler would be committed
// by itself: call it last, and return.
absl::Status InsertLedgerRow(sqlite3* database, const absl::StatusOr<LedgerRow>& row);

// For Execution::Commit. If it does not commit, it rolls the transaction back, also if a reader
// keeps the file busy.
LedgerCommit CommitLedgerTransaction(sqlite3* database, const LedgerCommitPermit& permit);

struct SqliteLedgerOptions {
  // The maximum wait of a lookup for a writer: 0 (none) to 24 days; in WAL mode lookups do not
  // wait. 2 s: within GuardOptions::verdict_timeout, for which a call waits anyway.
  absl::Duration busy_timeout = absl::Seconds(2);
  // As GuardOptions::log.
  LogSink log;
};

// A completion ledger in the application's SQLite file, in the table that
// migrations/sqlite/001_completions.up.sql creates. It has its own connection: the
// application's would show it uncommitted rows. Thread-safe.
class SqliteLedger final : public CompletionLedger {
 public:
  //   UNAVAILABLE          the file cannot be opened or read; the cause is logged
  //   FAILED_PRECONDITION  the table does not exist; the message has the remedy
  static absl::StatusOr<std::unique_ptr<SqliteLedger>> Open(
      const std::string& path, const SqliteLedgerOptions& options = {});
  ~SqliteLedger() override;

  absl::StatusOr<std::optional<LedgerEntry>> Find(const RecordId& record_id) override;

  // Deletes up to `batch_rows` (1 or more) expired rows and returns their number. Call it from a
  // timer until it returns less than a batch. UNAVAILABLE if the file cannot be written; the cause
  // is logged. Blocks.
  absl::StatusOr<std::int64_t> Sweep(int batch_rows = 1000);

 private:
  struct File;
  explicit SqliteLedger(std::unique_ptr<File> file);

  const std::unique_ptr<File> file_;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_LEDGER_SQLITE_LEDGER_H_
