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
// An included ledger header has the overload, found by the row's type.
template <typename Transaction>
inline constexpr bool kTakesLedgerRow<
    Transaction, std::void_t<decltype(InsertLedgerRow(
                     std::declval<Transaction&>(), std::declval<absl::StatusOr<LedgerRow>>()))>> =
    true;

}  // namespace internal

// What a handler may know and say about its own guarded execution. Thread-safe;
// valid until the handler's reply has been sent.
class Execution {
 public:
  virtual ~Execution() = default;

  // The execution that `context` belongs to; nullptr in an unguarded call.
  static Execution* FromContext(grpc::ServerContextBase* context);

  // 1 for the first run of this record, 2 after one that did not complete, ...
  virtual std::uint32_t attempt() const = 0;
  // The record's id, as in the `idempotency-record` metadata.
  virtual const std::string& record_id() const = 0;
  // True once the reservation is known to be lost, and while the lease has run
  // out: unheard by the store, or after MethodPolicy::max_lease. Another attempt
  // may run. A reply that the store then refuses is never delivered: the caller
  // gets RESERVATION_LOST, and its retry the winner's.
  virtual bool lost() const = 0;

  // What the last attempt stored with Checkpoint(), "" if nothing: what another
  // attempt may go on from. Not what this attempt stores.
  virtual const std::string& checkpoint() const = 0;
  // The record's: what its first reservation gave.
  virtual const std::map<std::string, std::string>& labels() const = 0;

  // Stores how far this attempt has come, in the place of what was stored
  // before: what the next attempt, or the recovery handler, receives if this one
  // dies. Blocks until it is durable; not for gRPC's own threads in the callback
  // API. Counts as a heartbeat.
  //   OK                 durable
  //   REQUEST_INVALID    empty, or over 4 KiB
  //   RESERVATION_LOST   not stored: another attempt may be running, so stop
  //   STORE_UNAVAILABLE  not acknowledged within GuardOptions::recording_timeout.
  //                      It may be stored yet, even after a later one
  virtual absl::Status Checkpoint(std::string_view progress) = 0;
  // The same without blocking. `done` is called once, on a thread of the guard's
  // or inside this call, and must not block. Checkpoints are stored in the order
  // given; with 16 waiting the next is OVERLOADED.
  virtual void Checkpoint(std::string progress, std::function<void(absl::Status)> done) = 0;

  // The handler's word that no effect took place: if it then fails with a code
  // that is not recorded, the reservation is released at once and the next
  // attempt may run. Has no meaning after OK or a recorded code.
  virtual void MarkNoEffect() = 0;

  // The key of this execution's call with `label`, for calls that Attach cannot
  // reach: through a queue, over HTTP, with CallWithRetries. Made of the record,
  // not of the attempt: the next attempt finds the same one, and what it calls
  // replays. See docs/workflows.md. DOWNSTREAM_REFUSED for a label that is empty
  // or over 255 bytes, or if idempotencyd is too old to say when a record was
  // made.
  virtual absl::StatusOr<std::string> DownstreamKey(std::string_view label) const = 0;
  // Makes the call of `context` a step of this execution: it gets a key that
  // every attempt gives it again, and tells the callee its parent. Once, before
  // the call, on a channel that has MakeClientInterceptor(). The link is this
  // call: nothing attaches by itself.
  //
  // With a label the key is DownstreamKey(label). A call that is repeated keeps
  // its label; two that are different have two, each telling which it is
  // ("item-3" by the item's name, not by its turn).
  //
  // Fails as DownstreamKey does; then, and when the key cannot be given (see
  // MakeClientInterceptor), the call is not sent either.
  [[nodiscard]] virtual absl::Status Attach(grpc::ClientContext& context,
                                            std::string_view label) = 0;
  // Without a label the key is made of the called method instead, so that each
  // method can be called once: a second call to it fails with
  // DOWNSTREAM_REFUSED. Its turn would not tell it from the first, since an
  // attempt that resumes from a checkpoint leaves calls out.
  [[nodiscard]] virtual absl::Status Attach(grpc::ClientContext& context) = 0;

  // Names what this execution made, for example ("payment", "pay_42"): under
  // the policy REPLY_REFERENCE it is what is stored of an OK reply, and what
  // the method's loader gets to make a replay. The last call counts. UTF-8, up
  // to 1 KiB together; anything else is logged and not kept. Has no meaning
  // under another policy.
  virtual void SetReference(std::string_view type, std::string_view id) = 0;
  // Makes `reply` the operation's reply with the commit of `transaction`, which
  // has the operation's effects: one row in the completion ledger, which the
  // guard asks before anything runs again (GuardOptions::ledger, and
  // docs/ledger.md). `transaction` is what an included ledger header takes: a
  // pqxx transaction (postgres_ledger.h) or a sqlite3* in one
  // (sqlite_ledger.h). Call it last, right before the commit. An attempt after
  // the first calls it for every outcome that is to be recorded, also for one
  // without effects: an earlier one that was only slow may still commit.
  //   OK                   commit now
  //   RESERVATION_LOST     (ABORTED) another attempt has committed, or may run:
  //                        the lease is over
  //   STORE_UNAVAILABLE    the row could not be written
  //   FAILED_PRECONDITION  the guard has no ledger, or `transaction` is none
  //                        that could be undone
  //   INVALID_ARGUMENT     `reply` has a code that is never recorded
  // Unless it is OK nothing may be committed: give up and return, or repeat the
  // whole transaction. The transaction has been made to fail at its commit
  // (SQLite: is rolled back). Whatever the handler then answers, callers get
  // what the ledger holds; if that is nothing, an OK goes out as
  // OUTCOME_NOT_RECORDED.
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

  // RecordInTransaction, and the commit of `transaction`. Prefer it: the guard remembers
  // that the commit succeeded and does not ask the ledger for the row, which
  // saves a read for each execution. Answers as RecordInTransaction does, and
  //   OK                    committed: answer with `reply`
  //   STORE_UNAVAILABLE     nothing was committed (a deferred constraint, a
  //                         serialisation failure, a database that is busy):
  //                         give up, or repeat the whole transaction
  //   OUTCOME_NOT_RECORDED  the commit got no answer. Return this status; the
  //                         guard asks the ledger what became of it, as after
  //                         RecordInTransaction
  template <typename Transaction>
  [[nodiscard]] absl::Status Commit(Transaction&& transaction, const RecordedReply& reply) {
    absl::Status recorded = RecordInTransaction(transaction, reply);
    if (!recorded.ok()) return recorded;
    if constexpr (internal::kTakesLedgerRow<Transaction>) {
      const LedgerCommit commit = CommitLedgerTransaction(transaction, MayCommit());
      if (commit.known_committed()) NoteCommitted(reply);
      return commit.status();
    }
  }

 protected:
  // From now on the guard asks the ledger before it settles the execution.
  virtual absl::StatusOr<LedgerRow> NewLedgerRow(const RecordedReply& reply) = 0;
  // Time may have passed since the row was written: the INSERT waits for another
  // attempt's transaction.
  virtual LedgerCommitPermit MayCommit() const = 0;
  // `reply` is committed: the guard need not ask.
  virtual void NoteCommitted(const RecordedReply& reply) = 0;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_EXECUTION_H_
