#ifndef GRPC_IDEMPOTENCY_LEDGER_POSTGRES_LEDGER_H_
#define GRPC_IDEMPOTENCY_LEDGER_POSTGRES_LEDGER_H_

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

namespace pqxx {
class transaction_base;
}  // namespace pqxx

namespace idempotency {

// For Execution::RecordInTransaction: writes the row within `transaction`, a pqxx::work or
// another transaction that is rolled back as a whole. A pqxx::nontransaction is refused with
// FAILED_PRECONDITION, and so is a subtransaction: effects outside of it could still be
// committed. Blocks while another attempt's transaction that wrote the same row is open. Makes
// the transaction's commit durable: sets synchronous_commit to on for it where it is off, local
// or remote_write. Does not throw.
absl::Status InsertLedgerRow(pqxx::transaction_base& transaction,
                             const absl::StatusOr<LedgerRow>& row);

// For Execution::Commit. After a warning during the commit the guard reads the outcome from the
// ledger: the synchronous standby may not have confirmed the commit. Does not throw.
LedgerCommit CommitLedgerTransaction(pqxx::transaction_base& transaction,
                                     const LedgerCommitPermit& permit);

struct PostgresLedgerOptions {
  // The application's database as a libpq connection string: a URL, or keywords and values. Of
  // several hosts the one that takes writes is used.
  std::string conninfo;
  // The maximum number of connections, at least 1, each opened at its first use. 8: one for each
  // thread that queries the ledger (GuardThreads::ledger).
  int connections = 8;
  // The timeout of a connection attempt, over 0. 2 s: within GuardOptions::verdict_timeout, for
  // which a call waits anyway.
  absl::Duration connect_timeout = absl::Seconds(2);
  // The timeout of one lookup, at least 1 ms, for the same reason; a session that exceeds it is
  // closed.
  absl::Duration statement_timeout = absl::Seconds(2);
  // As GuardOptions::log.
  LogSink log;
};

// A completion ledger in the application's Postgres, in the table that
// migrations/postgres/001_completions.up.sql creates. Thread-safe.
class PostgresLedger final : public CompletionLedger {
 public:
  //   INVALID_ARGUMENT     an option is invalid
  //   UNAVAILABLE          the database cannot be reached now; the cause is logged
  //   FAILED_PRECONDITION  no table, a key that would not prevent a second effect, or a pooler
  //                        before the server; the message has the remedy
  static absl::StatusOr<std::unique_ptr<PostgresLedger>> Open(const PostgresLedgerOptions& options);
  ~PostgresLedger() override;

  absl::StatusOr<std::optional<LedgerEntry>> Find(const RecordId& record_id) override;

  // Deletes up to `batch_rows` (1 or more) expired rows and returns their number, as
  // idempotency_sweep_completions() does in SQL. Call it from a timer until it returns less
  // than a batch. UNAVAILABLE if the database cannot be reached; the cause is logged. Blocks.
  absl::StatusOr<std::int64_t> Sweep(int batch_rows = 1000);

 private:
  class Sessions;
  explicit PostgresLedger(std::unique_ptr<Sessions> sessions);

  const std::unique_ptr<Sessions> sessions_;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_LEDGER_POSTGRES_LEDGER_H_
