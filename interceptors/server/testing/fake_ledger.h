#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_FAKE_LEDGER_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_FAKE_LEDGER_H_

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/mutex.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/ledger/completion_ledger.h"
#include "grpc_idempotency/ledger/ledger_commit.h"
#include "grpc_idempotency/ledger/ledger_row.h"
#include "interceptors/server/log/guard_log.h"

namespace idempotency::internal {

// A completion ledger in memory that a test can make unavailable. Thread-safe.
class FakeLedger final : public CompletionLedger {
 public:
  absl::StatusOr<std::optional<LedgerEntry>> Find(const RecordId& record_id) override {
    MutexLock lock(mutex_);
    ++finds_;
    changed_.NotifyAll();
    while (held_) changed_.Wait(lock);
    if (failures_ > 0) {
      --failures_;
      return failure_;
    }
    const auto found = rows_.find(record_id);
    if (found == rows_.end()) return std::nullopt;
    const LedgerRow& row = found->second;
    absl::StatusOr<LedgerEntry> entry =
        LedgerEntry::Decode(row.record_key, row.fingerprints, row.attempt, row.reply, absl::Now());
    if (!entry.ok()) return entry.status();
    return *std::move(entry);
  }

  // False if a row with this id exists: a second effect would have happened.
  bool Commit(const LedgerRow& row) {
    MutexLock lock(mutex_);
    return rows_.emplace(row.record_id, row).second;
  }
  // The only row, for a test to change.
  LedgerRow& row() {
    MutexLock lock(mutex_);
    return rows_.begin()->second;
  }
  // The next `times` lookups fail.
  void Fail(absl::Status status, int times) {
    MutexLock lock(mutex_);
    failure_ = std::move(status);
    failures_ = times;
  }
  // Lookups hang until Hold(false).
  void Hold(bool held) {
    MutexLock lock(mutex_);
    held_ = held;
    changed_.NotifyAll();
  }
  int finds() const {
    MutexLock lock(mutex_);
    return finds_;
  }
  // False if there were fewer within 10 s.
  bool WaitForFinds(int finds) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    MutexLock lock(mutex_);
    while (finds_ < finds) {
      if (!changed_.WaitUntil(lock, deadline)) return false;
    }
    return true;
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::map<RecordId, LedgerRow> rows_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  int failures_ ABSL_GUARDED_BY(mutex_) = 0;
  int finds_ ABSL_GUARDED_BY(mutex_) = 0;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
};

// A transaction of the database that contains a FakeLedger.
struct FakeTransaction {
  enum class Ending { kAcknowledged, kUnconfirmed, kRefused, kAnswerLost, kCommitLost };

  FakeLedger& ledger;
  std::optional<LedgerRow> row;
  // The result of a commit by CommitLedgerTransaction.
  Ending ending = Ending::kAcknowledged;
  // Called between row and commit.
  std::function<void()> before_commit = nullptr;
  // The row cannot be written.
  bool refuses_row = false;

  bool Commit() { return row.has_value() && ledger.Commit(*row); }
};

inline absl::Status InsertLedgerRow(FakeTransaction& transaction,
                                    const absl::StatusOr<LedgerRow>& row) {
  if (!row.ok()) return row.status();
  if (transaction.refuses_row) {
    row->log(LogSeverity::kWarning, "ledger: no row");
    return MakeError(Reason::kStoreUnavailable, "no row");
  }
  transaction.row = *row;
  if (transaction.before_commit) transaction.before_commit();
  return absl::OkStatus();
}

inline LedgerCommit CommitLedgerTransaction(FakeTransaction& transaction,
                                            const LedgerCommitPermit& permit) {
  if (!permit.status.ok()) {
    transaction.row.reset();
    return LedgerCommit::NotCommitted(permit.status);
  }
  switch (transaction.ending) {
    case FakeTransaction::Ending::kAcknowledged:
      return transaction.Commit() ? LedgerCommit::Committed() : LedgerCommit::NotCommitted();
    case FakeTransaction::Ending::kUnconfirmed:
      return transaction.Commit() ? LedgerCommit::Unconfirmed() : LedgerCommit::NotCommitted();
    case FakeTransaction::Ending::kRefused:
      permit.log(LogSeverity::kWarning, "ledger: no commit");
      break;
    case FakeTransaction::Ending::kAnswerLost:
      transaction.Commit();
      return LedgerCommit::InDoubt();
    case FakeTransaction::Ending::kCommitLost:
      return LedgerCommit::InDoubt();
  }
  return LedgerCommit::NotCommitted();
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_FAKE_LEDGER_H_
