#include "tests/simulation/ledger.h"

#include "absl/time/clock.h"

#include "grpc_idempotency/errors.h"

namespace idempotency::internal::simulation {

absl::StatusOr<std::optional<LedgerEntry>> Ledger::Find(const RecordId& record_id) {
  scheduler_.Sleep(scheduler_.random().Between(100, 3000) * kMicrosecond);
  if (away_) {
    journal_.Counted(Count::kLedgerAway);
    return absl::UnavailableError("no connection");
  }
  const auto found = rows_.find(record_id);
  if (found == rows_.end()) return std::nullopt;
  const LedgerRow& row = found->second;
  absl::StatusOr<LedgerEntry> entry =
      LedgerEntry::Decode(row.record_key, row.fingerprints, row.attempt, row.reply, absl::Now());
  if (!entry.ok()) return entry.status();
  scheduler_.Sleep(scheduler_.random().Between(100, 3000) * kMicrosecond);
  return *std::move(entry);
}

Ledger::Commit Ledger::Write(const LedgerRow& row, const std::function<void()>& effect) {
  Random& random = scheduler_.random();
  scheduler_.Sleep(random.Between(100, 3000) * kMicrosecond);
  const bool in_doubt = random.Chance(plan_.commit_in_doubt);
  if (in_doubt) journal_.Counted(Count::kCommitInDoubt);
  if (away_ || (in_doubt && random.Chance(0.5))) return Commit::kInDoubt;
  if (!rows_.emplace(row.record_id, row).second) {
    journal_.Counted(Count::kLedgerRefusedSecond);
    return Commit::kRefused;
  }
  effect();
  scheduler_.Sleep(random.Between(100, 3000) * kMicrosecond);
  return in_doubt ? Commit::kInDoubt : Commit::kDone;
}

LedgerCommit CommitLedgerTransaction(LedgerTransaction& transaction,
                                     const LedgerCommitPermit& permit) {
  if (!permit.status.ok()) return LedgerCommit::NotCommitted(permit.status);
  switch (transaction.ledger->Write(*transaction.row, transaction.effect)) {
    case Ledger::Commit::kDone:
      return LedgerCommit::Committed();
    case Ledger::Commit::kInDoubt:
      return LedgerCommit::InDoubt();
    case Ledger::Commit::kRefused:
      break;
  }
  return LedgerCommit::NotCommitted(
      MakeErrorWithCode(Reason::kReservationLost, absl::StatusCode::kAborted, "the row is there"));
}

}  // namespace idempotency::internal::simulation
