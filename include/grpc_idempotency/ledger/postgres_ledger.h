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
// any other that is undone as a whole. A pqxx::nontransaction is refused with
// FAILED_PRECONDITION, and so is a subtransaction: what stands outside of it
// could still be committed. Blocks while another attempt's transaction that
// wrote the same row is open. The transaction's commit will be durable:
// synchronous_commit is switched on for it where it is off, local or
// remote_write. Throws nothing.
absl::Status InsertLedgerRow(pqxx::transaction_base& transaction,
                             const absl::StatusOr<LedgerRow>& row);

// For Execution::Commit. A warning during the commit leaves the outcome to the
// ledger: it may be that the synchronous standby did not confirm. Throws nothing.
LedgerCommit CommitLedgerTransaction(pqxx::transaction_base& transaction,
                                     const LedgerCommitPermit& permit);

struct PostgresLedgerOptions {
  // The application's database, as libpq takes it: a URL or keywords and
  // values. Of several hosts the one that takes writes is used.
  std::string conninfo;
  // At most; opened when first needed. 8: one for each thread that asks
  // (GuardThreads::ledger).
  int connections = 8;
  absl::Duration connect_timeout = absl::Seconds(2);
  // How long one lookup may take; after it the session is given up.
  absl::Duration statement_timeout = absl::Seconds(2);
  // As GuardOptions::log.
  LogSink log;
};

// A completion ledger in the application's Postgres, in the table that
// migrations/postgres/001_completions.up.sql makes. Thread-safe.
class PostgresLedger final : public CompletionLedger {
 public:
  //   INVALID_ARGUMENT     an option cannot work
  //   UNAVAILABLE          the database cannot be reached now; why is logged
  //   FAILED_PRECONDITION  there is no table, or its key would not stop a
  //                        second effect; the message says what to do
  static absl::StatusOr<std::unique_ptr<PostgresLedger>> Open(const PostgresLedgerOptions& options);
  ~PostgresLedger() override;

  absl::StatusOr<std::optional<LedgerEntry>> Find(const RecordId& record_id) override;

  // Deletes up to `batch_rows` rows that nobody needs any more and answers how
  // many: as idempotency_sweep_completions() in SQL. Call it from a timer until
  // it answers less than a batch.
  absl::StatusOr<std::int64_t> Sweep(int batch_rows = 1000);

 private:
  class Sessions;
  explicit PostgresLedger(std::unique_ptr<Sessions> sessions);

  const std::unique_ptr<Sessions> sessions_;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_LEDGER_POSTGRES_LEDGER_H_
