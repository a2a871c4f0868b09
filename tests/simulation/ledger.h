#ifndef IDEMPOTENCY_TESTS_SIMULATION_LEDGER_H_
#define IDEMPOTENCY_TESTS_SIMULATION_LEDGER_H_

#include <functional>
#include <map>
#include <optional>

#include "grpc_idempotency/ledger/completion_ledger.h"
#include "grpc_idempotency/ledger/ledger_commit.h"
#include "grpc_idempotency/ledger/ledger_row.h"
#include "tests/simulation/journal.h"
#include "tests/simulation/plan.h"

namespace idempotency::internal::simulation {

// The application's own database: the completion ledger, and the transactions that write it
// together with an effect. All application servers share it.
class Ledger final : public CompletionLedger {
 public:
  enum class Commit {
    kDone,
    kRefused,  // the row is there
    kInDoubt,  // the connection broke: it may have happened
  };

  // All outlive it.
  Ledger(Scheduler& scheduler, const Plan& plan, Journal& journal)
      : scheduler_(scheduler), plan_(plan), journal_(journal) {}

  absl::StatusOr<std::optional<LedgerEntry>> Find(const RecordId& record_id) override;

  // Row and `effect`, both or neither. Takes time.
  Commit Write(const LedgerRow& row, const std::function<void()>& effect);

  // No call reaches it now.
  void SetAway(bool away) { away_ = away; }

 private:
  Scheduler& scheduler_;
  const Plan& plan_;
  Journal& journal_;
  bool away_ = false;
  std::map<RecordId, LedgerRow> rows_;
};

// The transaction into which Execution::RecordInTransaction writes its row.
struct LedgerTransaction {
  std::optional<LedgerRow> row;
  // For Execution::Commit.
  Ledger* ledger = nullptr;
  std::function<void()> effect = {};
};

inline absl::Status InsertLedgerRow(LedgerTransaction& transaction,
                                    const absl::StatusOr<LedgerRow>& row) {
  if (!row.ok()) return row.status();
  transaction.row = *row;
  return absl::OkStatus();
}

LedgerCommit CommitLedgerTransaction(LedgerTransaction& transaction,
                                     const LedgerCommitPermit& permit);

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_LEDGER_H_
