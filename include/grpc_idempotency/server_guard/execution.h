#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_EXECUTION_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_EXECUTION_H_

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "grpc_idempotency/ledger/ledger_commit.h"
#include "grpc_idempotency/ledger/ledger_row.h"
#include "grpc_idempotency/ledger/recorded_reply.h"

namespace idempotency {

namespace internal {

template <typename Transaction, typename = void>
inline constexpr bool kTakesLedgerRow = false;
// An included ledger header declares the overload; argument-dependent lookup finds it by the
// row's type.
template <typename Transaction>
inline constexpr bool kTakesLedgerRow<
    Transaction, std::void_t<decltype(InsertLedgerRow(
                     std::declval<Transaction&>(), std::declval<absl::StatusOr<LedgerRow>>()))>> =
    true;

}  // namespace internal

// A handler's view of its own guarded execution. Thread-safe; valid until the handler's reply
// has been sent.
class Execution {
 public:
  virtual ~Execution() = default;

  // The execution that `context` belongs to; nullptr in an unguarded call, and once its outcome is
  // settled: interceptors of the application at PRE_SEND_STATUS no longer find it.
  static Execution* FromContext(grpc::ServerContextBase* context);

  // --- The attempt ---

  // 1 for the first run of this record, 2 after one that did not complete, ... With
  // MethodPolicy::relaxed_reservation two attempts may both be 1.
  virtual std::uint32_t attempt() const = 0;
  // Whether no other attempt of this record has run or is running. False after the first attempt,
  // and for each attempt with MethodPolicy::relaxed_reservation. Unless it is true, every outcome
  // that is to be recorded is committed in the ledger (RecordInTransaction): where the ledger
  // decides about unknown outcomes, another refusal is sent as OUTCOME_NOT_RECORDED. The store may
  // have lost a record: so the guard queries the ledger before it records a refusal, in any
  // attempt.
  virtual bool certainly_first() const = 0;
  // The record's id, as in the `idempotency-record` metadata.
  virtual const std::string& record_id() const = 0;
  // True once the reservation is known to be lost, and while its lease has expired: because the
  // store could not be reached, or after MethodPolicy::max_lease. Another attempt may run. A
  // reply that the store then refuses is not delivered (unless the record expired): the caller gets
  // RESERVATION_LOST, and its retry gets the reply of the attempt that won.
  virtual bool lost() const = 0;

  // --- Progress ---

  // The last checkpoint of an earlier attempt, from which this attempt can continue; "" if
  // there is none. It does not change when this attempt stores a checkpoint.
  virtual const std::string& checkpoint() const = 0;
  // The record's labels, set by its first reservation.
  virtual const std::map<std::string, std::string>& labels() const = 0;

  // Stores the progress of this attempt in place of the previous checkpoint: the next attempt,
  // or the recovery handler, receives it if this attempt does not finish. Blocks until it is
  // durable; not for gRPC's own threads in the callback API. Counts as a heartbeat. A late copy of
  // an earlier checkpoint of this attempt may overwrite it, so that its reader must tolerate that
  // later steps were done.
  //   OK                 durable
  //   REQUEST_INVALID    empty, or over 4 KiB
  //   RESERVATION_LOST   not stored: another attempt may be running, so stop
  //   STORE_UNAVAILABLE  not acknowledged within GuardOptions::recording_timeout. It may still
  //                      be stored
  virtual absl::Status Checkpoint(std::string_view progress) = 0;
  // The same without blocking. `done` is called once, on a thread of the guard's
  // or inside this call, and must not block. Checkpoints are stored in the order
  // given; with 16 waiting the next is OVERLOADED.
  virtual void Checkpoint(std::string progress, std::function<void(absl::Status)> done) = 0;

  // Declares that the handler had no effect: if it then fails with a code that is not recorded,
  // the reservation is released at once and the next attempt may run. Ignored after OK or a
  // recorded code.
  virtual void MarkNoEffect() = 0;

  // --- Calls to other services ---

  // The key of this execution's call with `label`, for calls that Attach cannot cover: through
  // a queue, over HTTP, with CallWithRetries. It depends on the record, not on the attempt: the
  // next attempt gets the same key, and the called service replays. It contains the time of the
  // record's first reservation: after a loss of the record the steps have other keys. For a party
  // that deduplicates by itself use record_id(), which survives that. See docs/workflows.md.
  // DOWNSTREAM_REFUSED for a label that is empty or over 255 bytes, in a first attempt with
  // MethodPolicy::relaxed_reservation (another first attempt would have another key), or if
  // idempotencyd is too old to report when a record was created.
  virtual absl::StatusOr<std::string> DownstreamKey(std::string_view label) const = 0;
  // Makes the call of `context` a step of this execution: the call gets a key that is the same
  // in every attempt, and sends its parent to the called service. Call it once, before the
  // call, on a channel that has MakeClientInterceptor(). No call is attached automatically.
  //
  // With a label the key is DownstreamKey(label). A repeated call keeps its label; two
  // different calls have two labels, each of which identifies its call ("item-3" by the item's
  // name, not by its position).
  //
  // Fails as DownstreamKey does. Then, and when the key cannot be set (see
  // MakeClientInterceptor), the call is not sent either.
  [[nodiscard]] virtual absl::Status Attach(grpc::ClientContext& context,
                                            std::string_view label) = 0;
  // Without a label the key depends on the called method instead, so that each method can be
  // called once: a second call to it fails with DOWNSTREAM_REFUSED. Its position would not
  // identify it, since an attempt that resumes from a checkpoint leaves calls out.
  [[nodiscard]] virtual absl::Status Attach(grpc::ClientContext& context) = 0;

  // --- The reply, and the completion ledger ---

  // Names the object that this execution created, for example ("payment", "pay_42"). Under the
  // policy REPLY_REFERENCE the store keeps this reference of an OK reply, and the method's
  // loader gets it to make a replay. The last call counts; with a completion ledger, call it
  // before the reply is committed, so that the row has it too. UTF-8, up to 1 KiB together; other
  // values are logged and not kept. Ignored under other policies.
  virtual void SetReference(std::string_view type, std::string_view id) = 0;
  // Makes `reply` the operation's reply when `transaction`, which contains the operation's
  // effects, is committed: it inserts one row into the completion ledger, which the guard
  // queries before anything runs again (GuardOptions::ledger, and docs/ledger.md).
  // `transaction` has a type that an included ledger header supports: a pqxx transaction
  // (postgres_ledger.h) or a sqlite3* with an open transaction (sqlite_ledger.h). Call it last,
  // right before the commit. Unless it is certainly_first(), an attempt calls it for every
  // outcome that is to be recorded, also for one without effects: another attempt may still commit.
  //   OK                   commit now
  //   RESERVATION_LOST     (ABORTED) another attempt has committed, or may run: the lease has
  //                        expired
  //   STORE_UNAVAILABLE    the row could not be written
  //   FAILED_PRECONDITION  the guard has no ledger, or `transaction` could not be rolled back, or
  //                        could be committed in part (SQLite: it writes two files)
  //   INVALID_ARGUMENT     `reply` has a code that is never recorded
  // Unless it returns OK, commit nothing: give up and return, or repeat the whole transaction.
  // The transaction will fail at its commit (SQLite: it is rolled back already). Callers then
  // get the outcome that the ledger holds, also if the handler answers differently; if it holds
  // none, an OK is sent as OUTCOME_NOT_RECORDED.
  template <typename Transaction>
  [[nodiscard]] absl::Status RecordInTransaction(Transaction&& transaction,
                                                 const RecordedReply& reply) {
    static_assert(internal::kTakesLedgerRow<Transaction>,
                  "no ledger header takes this transaction: include "
                  "grpc_idempotency/ledger/postgres_ledger.h for a pqxx transaction, or "
                  "grpc_idempotency/ledger/sqlite_ledger.h for a sqlite3*");
    if constexpr (internal::kTakesLedgerRow<Transaction>) {
      return InsertLedgerRow(transaction, NewLedgerRow(reply));
    }
  }

  // RecordInTransaction, and the commit of `transaction`. Prefer it: the guard then has
  // proof that the commit succeeded. It does not query the ledger for the row, which saves a read
  // for each execution, and the reply leaves without waiting for the store: the guard records it in
  // the background. Returns the errors of RecordInTransaction, and
  //   OK                    committed: answer with `reply`
  //   STORE_UNAVAILABLE     nothing was committed (a deferred constraint, a serialisation
  //                         failure, a busy database): give up, or repeat the whole transaction
  //   OUTCOME_NOT_RECORDED  the commit got no answer. Return this status; the guard queries the
  //                         ledger for the outcome, as after RecordInTransaction, and without a
  //                         row records no other outcome
  template <typename Transaction>
  [[nodiscard]] absl::Status Commit(Transaction&& transaction, const RecordedReply& reply) {
    absl::Status recorded = RecordInTransaction(transaction, reply);
    if (!recorded.ok()) return recorded;
    if constexpr (internal::kTakesLedgerRow<Transaction>) {
      const LedgerCommit commit = CommitLedgerTransaction(transaction, MayCommit());
      if (commit.known_committed()) NoteCommitted(reply);
      if (commit.in_doubt()) MarkCommitInDoubt();
      return commit.status();
    }
  }

  // Declares that a commit by the handler itself, after RecordInTransaction, got no answer: it may
  // still succeed. Until the ledger has its row, no outcome of this attempt is recorded, also no
  // refusal. Commit() calls it.
  virtual void MarkCommitInDoubt() = 0;

 protected:
  // From now on the guard queries the ledger before it settles the execution.
  virtual absl::StatusOr<LedgerRow> NewLedgerRow(const RecordedReply& reply) = 0;
  // Checked again, since time may have passed since the row was written: the INSERT waits for
  // another attempt's transaction.
  virtual LedgerCommitPermit MayCommit() const = 0;
  // `reply` is committed: the guard need not query the ledger.
  virtual void NoteCommitted(const RecordedReply& reply) = 0;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_EXECUTION_H_
