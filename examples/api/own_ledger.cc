// A completion ledger in a database of the application's own kind: completion_ledger.h,
// ledger_row.h, ledger_entry.h, ledger_commit.h, recorded_reply.h. This database is a map in
// memory, so that the example is short.
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "google/protobuf/message_lite.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/ledger/completion_ledger.h"
#include "grpc_idempotency/ledger/ledger_commit.h"
#include "grpc_idempotency/ledger/ledger_entry.h"
#include "grpc_idempotency/ledger/ledger_row.h"
#include "grpc_idempotency/ledger/recorded_reply.h"
#include "grpc_idempotency/server_guard/execution.h"

namespace examples {

// Thread-safe.
class Database final : public idempotency::CompletionLedger {
 public:
  absl::StatusOr<std::optional<idempotency::LedgerEntry>> Find(
      const idempotency::RecordId& record_id) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = rows_.find(record_id.ToString());
    if (found == rows_.end()) return std::nullopt;
    const idempotency::LedgerRow& row = found->second;
    return idempotency::LedgerEntry::Decode(row.record_key, row.fingerprints, row.attempt,
                                            row.reply, absl::Now());
  }
  // False if a row of this record is there already.
  bool Insert(const idempotency::LedgerRow& row) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return rows_.emplace(row.record_id.ToString(), row).second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, idempotency::LedgerRow> rows_;
};

// Writes at its commit. Not thread-safe.
struct Transaction {
  Database& database;
  std::optional<idempotency::LedgerRow> row = std::nullopt;
  bool broken = false;
};

}  // namespace examples

namespace idempotency {

absl::Status InsertLedgerRow(examples::Transaction& transaction,
                             const absl::StatusOr<LedgerRow>& row) {
  transaction.broken = !row.ok();
  if (!row.ok()) return row.status();
  transaction.row = *row;
  return absl::OkStatus();
}

LedgerCommit CommitLedgerTransaction(examples::Transaction& transaction,
                                     const LedgerCommitPermit& permit) {
  transaction.broken = transaction.broken || !permit.status.ok() || !transaction.row.has_value();
  if (!permit.status.ok()) return LedgerCommit::NotCommitted(permit.status);
  if (transaction.broken) return LedgerCommit::NotCommitted();
  if (transaction.database.Insert(*transaction.row)) return LedgerCommit::Committed();
  return LedgerCommit::NotCommitted(
      MakeError(Reason::kReservationLost, "another attempt has committed"));
}

}  // namespace idempotency

namespace examples {

// A handler's end: the effects and the reply are committed together.
absl::Status Finish(idempotency::Execution& execution, Database& database,
                    const google::protobuf::MessageLite& reply) {
  Transaction transaction{database};
  return execution.Commit(transaction, idempotency::RecordedReply(reply));
}

}  // namespace examples
