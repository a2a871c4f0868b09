#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_POSTGRES_STORE_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_POSTGRES_STORE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "core/database_connection_pool.h"
#include "core/mutex.h"
#include "postgres/socket_watchdog.h"
#include "server/store/postgres/batched/reserve.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/connections.h"
#include "server/store/postgres/locked_rows.h"
#include "server/store/postgres/options.h"
#include "server/store/postgres/records/operation_batches.h"
#include "server/store/postgres/records/unreadable_places.h"
#include "server/store/postgres/single_row/records.h"
#include "server/store/postgres/statements/batched.h"
#include "server/store/postgres/statements/single_row.h"
#include "server/store/store.h"

namespace idempotency::internal {

// The production store. Any number of processes may share one schema.
//
// Each statement is a transaction of its own under READ COMMITTED; a verdict is
// based on a row that was read, and is written only if the row is unchanged. A
// changed row is read again, a bounded number of times.
//
// An operation left undecided by a lost connection, a timeout or an unconfirmed
// synchronous standby is answered STORE_UNAVAILABLE; an operation with a value that
// Postgres cannot keep (a NUL in a text), REQUEST_INVALID, without affecting others.
// Where commits wait for a synchronous standby, every answer from a record that was
// read waits for it too: a replay or a repeated grant, but also IN_FLIGHT or a refused
// token. Get does not: it returns the server's current data.
//
// With PostgresOptions::statements these are statements for each record instead, in a pipeline
// (single_row/records.h).
//
// Thread-safe: calls share a pool of connections, one per call in progress.
class PostgresStore final : public Store {
 public:
  // Connects with the first call. INVALID_ARGUMENT if an option is wrong. Check
  // the schema first: PostgresMigrator::CheckSchema.
  static absl::StatusOr<std::unique_ptr<PostgresStore>> Create(const PostgresOptions& options);

  std::vector<absl::StatusOr<Verdict>> Reserve(absl::Span<const ReserveOp> ops) override;
  std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) override;
  // While most reservations are new: one statement, one commit.
  SharedAnswers CompleteAndReserve(absl::Span<const CompleteOp> completions,
                                   absl::Span<const ReserveOp> reservations) override;
  std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) override;
  std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) override;
  std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) override;
  // `next` of a pass is a place in this store's own order, not always the id of
  // a record: records whose ids are hashed are walked by age.
  absl::StatusOr<SweepProgress> Sweep(const SweepOp& op) override;
  absl::StatusOr<RecordPage> List(const ListOp& op) override;
  absl::StatusOr<Resolution> Resolve(const ResolveOp& op) override;
  absl::StatusOr<PurgeStep> Purge(const PurgeOp& op) override;
  absl::StatusOr<ResealStep> Reseal(const ResealOp& op) override;
  absl::StatusOr<AuditPage> ReadAudit(const AuditOp& op) override;
  absl::StatusOr<UsageStep> MeasureUsage(const UsageOp& op) override;
  absl::StatusOr<EndUnknownStep> EndUnknown(const EndUnknownOp& op) override;
  // None with statements for each record.
  std::unique_ptr<HeldConnection> Hold(std::function<void()> wanted) override;
  // Commits a dummy row if no commit succeeded within PostgresOptions::commit_proof,
  // and waits for the standby as completions do; also checks whether the schema is
  // still the same. Reads a bounded number of rows. In a table that is not small a
  // reservation counts in oldest_reserved_age once the sweep has passed it at the age
  // of a minute.
  absl::StatusOr<StoreGauges> Inspect() override;

  // The connections of both logins together.
  DatabaseConnectionPoolGauges connections() const;

  using Pool = DatabaseConnectionPool<PostgresConnection>;

 private:
  friend class PostgresHeldConnection;

  explicit PostgresStore(const PostgresOptions& options);

  // Runs the rounds of what has no answer yet, and takes the answers.
  std::vector<absl::StatusOr<Verdict>> Finish(PostgresConnection& connection, ReserveBatch& batch,
                                              BatchedReserve& reserve);
  std::vector<absl::StatusOr<Completion>> Finish(PostgresConnection& connection,
                                                 CompleteBatch& batch);

  // Runs `run` with a connection, or fails the batch without one, and takes the answers.
  template <typename Op, typename Answer, typename Run>
  std::vector<Answer> WithConnection(PostgresBatch<Op, Answer>& batch, Run run);
  // Runs rounds until all of the batch is answered, and notes the rows that were found locked.
  template <typename Batch, typename Round>
  void AnswerInRounds(PostgresConnection& connection, Batch& batch, Round& round);
  // Answers a batch in rounds, on one connection; `single_row_round` in
  // PostgresStatementMode::kSingleRow.
  template <typename Op, typename Answer>
  std::vector<Answer> OnConnection(
      absl::Span<const Op> ops,
      absl::Status (*round)(PostgresConnection&, const PostgresStatements&,
                            PostgresBatch<Op, Answer>&, const std::vector<std::size_t>&),
      absl::Status (*single_row_round)(SingleRowRecords&, PostgresBatch<Op, Answer>&,
                                       const std::vector<std::size_t>&));
  bool in_single_rows() const { return options_.statements == PostgresStatementMode::kSingleRow; }
  SingleRowRecords RecordsOf(PostgresConnection& connection) {
    return {connection, single_row_statements_, unreadable_, options_.clock_margin};
  }
  // A connection for a call. Refused while the schema differs from the
  // original. Failures are the caller's.
  absl::StatusOr<Pool::Lease> Acquire();
  // The same with the login for maintenance.
  absl::StatusOr<Pool::Lease> AcquireForMaintenance();
  // Calls `call` with the operations of the mode in use, on such a connection.
  template <typename SingleRow, typename Batched, typename Call>
  auto Maintain(Call call) -> decltype(call(std::declval<Batched&>()));
  // OK while the server's clock may decide that a record is over. Before each step, so that a clock
  // that is set wrong for a moment removes nothing.
  absl::Status CheckClock();
  // A page of SingleRowOrphans, after each pass of the sweep.
  void RemoveOrphans();
  absl::Status ProveCommits(PostgresConnection& connection);
  // A commit of this process took place; the second overload: if one of the
  // answers shows it.
  void NoteCommit();
  template <typename Answer>
  void NoteCommits(const std::vector<absl::StatusOr<Answer>>& answers);
  // The gauges are spread over all nodes: while one is away they are those of before, since the
  // others serve.
  absl::StatusOr<StoreGauges> InspectSingleRows(PostgresConnection& connection);
  // Those of `gauges` that were read, and for the others the last ones, if any. `read`: whether all
  // were.
  absl::StatusOr<StoreGauges> NoteGauges(const absl::Status& read, const StoreGauges& gauges);
  bool ReadsFirst() const;
  // Keeps the running mean.
  void NoteKnown(std::size_t known, std::size_t of);

  // The connections of the login for maintenance, where it is another one.
  struct Maintenance {
    Maintenance(const PostgresOptions& of, const PostgresStatements& statements,
                SocketWatchdog& watchdog);

    const PostgresOptions options;
    PostgresConnections connections;
    Pool pool;
  };

  const PostgresOptions options_;
  const PostgresStatements statements_;
  const SingleRowStatements single_row_statements_;
  // Bounds the calls of all connections; outlives them.
  SocketWatchdog watchdog_;
  PostgresConnections connections_;
  PostgresLockedRows locked_rows_;
  UnreadablePlaces unreadable_;
  Pool pool_;
  std::optional<Maintenance> maintenance_;
  // By the monotonic clock, in nanoseconds.
  std::atomic<std::int64_t> committed_at_{std::numeric_limits<std::int64_t>::min() / 2};
  // The gauges of the last inspection that could read them: the answer while one cannot, because of
  // a damaged page, or in PostgresStatementMode::kSingleRow for any reason. Commits are proved by
  // then.
  Mutex gauges_mutex_;
  StoreGauges gauges_ ABSL_GUARDED_BY(gauges_mutex_);
  // Where the walk over checkpoints continues.
  Mutex orphans_mutex_;
  RecordId orphans_after_ ABSL_GUARDED_BY(orphans_mutex_);
  // How many of the recent Reserve operations were on records that already
  // existed, in thousandths; a running mean. Decides whether to insert or to
  // read first.
  std::atomic<int> known_permille_{0};
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_POSTGRES_STORE_H_
