#ifndef GRPC_IDEMPOTENCY_LEDGER_LEDGER_COMMIT_H_
#define GRPC_IDEMPOTENCY_LEDGER_LEDGER_COMMIT_H_

#include <utility>

#include "absl/status/status.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/log_sink.h"

namespace idempotency {

// The permission to commit the transaction of an execution, checked right before the commit.
struct LedgerCommitPermit {
  // OK: the transaction may be committed; otherwise the reason why it may not.
  absl::Status status;
  // The guard's log, for a commit that fails; at most one line a second is written.
  LogSink log;
};

// The outcome of the commit of a transaction with a ledger row. A value type.
//
// For each kind of transaction there is one overload of
//   LedgerCommit CommitLedgerTransaction(Transaction&, const LedgerCommitPermit&);
// in this namespace, next to its InsertLedgerRow. Without a permit it does not commit, and the
// transaction can no longer be committed.
class LedgerCommit {
 public:
  // The database acknowledged the commit, as durable as its commits are.
  static LedgerCommit Committed() { return LedgerCommit(absl::OkStatus(), Kind::kCommitted); }
  // The transaction is committed, but the standby that should have it did not confirm it.
  static LedgerCommit Unconfirmed() { return LedgerCommit(absl::OkStatus(), Kind::kUnconfirmed); }
  // Nothing of the transaction is committed.
  static LedgerCommit NotCommitted(absl::Status why) {
    return LedgerCommit(std::move(why), Kind::kNotCommitted);
  }
  static LedgerCommit NotCommitted() {
    return NotCommitted(MakeError(Reason::kStoreUnavailable,
                                  "the database refused the commit: nothing was committed"));
  }
  // The database did not answer: only the ledger can show the outcome.
  static LedgerCommit InDoubt() {
    return LedgerCommit(MakeError(Reason::kOutcomeNotRecorded,
                                  "the database gave no answer to the commit: call again with "
                                  "the same idempotency key to get its outcome"),
                        Kind::kInDoubt);
  }

  // The status that the handler gets.
  const absl::Status& status() const { return status_; }
  // True: the transaction is committed, and the guard need not look for the row.
  bool known_committed() const { return kind_ == Kind::kCommitted; }
  // True: it may still be committed, also if the ledger has no row yet.
  bool in_doubt() const { return kind_ == Kind::kInDoubt; }

 private:
  enum class Kind { kCommitted, kUnconfirmed, kNotCommitted, kInDoubt };

  LedgerCommit(absl::Status status, Kind kind) : status_(std::move(status)), kind_(kind) {}

  absl::Status status_;
  Kind kind_;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_LEDGER_LEDGER_COMMIT_H_
