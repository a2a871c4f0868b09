#ifndef IDEMPOTENCY_SERVER_STORE_SQLITE_SQLITE_STORE_H_
#define IDEMPOTENCY_SERVER_STORE_SQLITE_SQLITE_STORE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/clock.h"
#include "core/mutex.h"
#include "core/sqlite_file_place.h"
#include "server/store/sqlite/audit.h"
#include "server/store/sqlite/connection.h"
#include "server/store/sqlite/file_lock.h"
#include "server/store/sqlite/records.h"
#include "server/store/store.h"

namespace idempotency::internal {

struct SqliteOptions {
  // Outlives the store.
  const Clock* clock = &Clock::System();
  // How long a batch waits for another program (the sqlite3 shell, a backup)
  // that holds the file's write lock.
  absl::Duration busy_timeout = absl::Seconds(5);
  // Reads the whole file at Open and refuses it if it is damaged: about a
  // second per gigabyte. Without it, damage shows when a record is read.
  bool check_file = true;
  // An inspection logs a warning while the write-ahead log is larger, once a minute at most:
  // another program has an open transaction, and the log grows until its end. The store's own
  // transactions and its checkpoints, each 16 MiB, keep it below the default.
  std::int64_t large_wal_bytes = 256 * 1024 * 1024;
};

// Records in one SQLite file, for one process on one machine. A batch is one
// transaction: all of it happens, or none and every operation answers
// STORE_UNAVAILABLE; except that a damaged record fails its operation alone. WAL with
// synchronous=FULL: an operation answered OK survives a crash of the process and of the machine.
//
// Once an inspection finds that a file was moved, removed or replaced, every operation is
// STORE_UNAVAILABLE until all are in their places again: what is written to them would be lost.
//
// Thread-safe. Batches that write take turns; Get and Inspect read
// concurrently.
class SqliteStore final : public Store {
 public:
  // Creates the file if it is missing, and migrates an older schema. Holds
  // `path`.lock for its lifetime, so that two processes never share a file.
  //   INVALID_ARGUMENT     `path` is empty, a directory, or in a directory that
  //                        does not exist
  //   FAILED_PRECONDITION  the file is no database or a damaged one, belongs to
  //                        another program or a newer version, is read-only, is
  //                        in use by another process, or is mounted without its
  //                        directory
  // The message contains what to do. It is for the operator and contains the path.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& path,
                                                           const SqliteOptions& options = {});

  std::vector<absl::StatusOr<Verdict>> Reserve(absl::Span<const ReserveOp> ops) override;
  std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) override;
  // One transaction.
  SharedAnswers CompleteAndReserve(absl::Span<const CompleteOp> completions,
                                   absl::Span<const ReserveOp> reservations) override;
  std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) override;
  std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) override;
  std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) override;
  absl::StatusOr<SweepProgress> Sweep(const SweepOp& op) override;
  absl::StatusOr<RecordPage> List(const ListOp& op) override;
  absl::StatusOr<Resolution> Resolve(const ResolveOp& op) override;
  absl::StatusOr<PurgeStep> Purge(const PurgeOp& op) override;
  absl::StatusOr<ResealStep> Reseal(const ResealOp& op) override;
  absl::StatusOr<AuditPage> ReadAudit(const AuditOp& op) override;
  absl::StatusOr<UsageStep> MeasureUsage(const UsageOp& op) override;
  absl::StatusOr<EndUnknownStep> EndUnknown(const EndUnknownOp& op) override;
  absl::StatusOr<StoreGauges> Inspect() override;

 private:
  // A connection and its statements, in the order in which they are built.
  struct PreparedConnection {
    SqliteConnection connection;
    std::unique_ptr<SqliteRecords> records;
    std::unique_ptr<SqliteAudit> audit;
  };

  // Prepares the statements on an open connection.
  static absl::Status PrepareAll(const std::string& file, PreparedConnection& prepared);
  static absl::StatusOr<PreparedConnection> OpenWriter(const std::string& file,
                                                       const SqliteOptions& options);
  static absl::StatusOr<PreparedConnection> OpenReader(const std::string& file,
                                                       const SqliteOptions& options);

  SqliteStore(const std::string& file, const SqliteOptions& options, FileLock lock,
              PreparedConnection writer, PreparedConnection reader);

  // Each answers its operation, or fails the whole batch with its status.
  absl::Status Answer(const ReserveOp& op, absl::Time now, absl::StatusOr<Verdict>& answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  absl::Status Answer(const CompleteOp& op, absl::Time now, absl::StatusOr<Completion>& answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  absl::Status Answer(const ReleaseOp& op, absl::Time now, absl::Status& answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  absl::Status Answer(const ExtendOp& op, absl::Time now, absl::StatusOr<Extension>& answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  absl::Status Write(const ReserveOp& op, const ReserveDecision& decision, const Uuid& token)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  // Without the records of `damaged`, to which it adds those that it meets.
  absl::StatusOr<SweepProgress> SweepRows(const std::vector<SqliteRecords::SweepRow>& rows,
                                          absl::Time now, std::set<RecordId>& damaged)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  // DATA_LOSS if the record is damaged.
  absl::Status SweepOne(const SqliteRecords::SweepRow& row, absl::Time now, SweepProgress& progress)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);

  // None for a purge of one record.
  absl::StatusOr<SqliteRecords::WalkPage> WalkToPurge(const PurgeOp& op)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);

  // Inside a transaction, which the caller commits.
  absl::StatusOr<Resolution> ResolveHere(const ResolveOp& op)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  // These three as SweepRows().
  absl::StatusOr<PurgeStep> PurgeRows(const PurgeOp& op, const SqliteRecords::WalkPage& page,
                                      absl::Time now, std::set<RecordId>& damaged)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  absl::StatusOr<EndUnknownStep> EndUnknownRows(const EndUnknownOp& op,
                                                const SqliteRecords::WalkPage& page, absl::Time now,
                                                std::set<RecordId>& damaged)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  // DATA_LOSS if the record is damaged.
  absl::StatusOr<PurgeStep> PurgeOne(const PurgeOp& op, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  // Replaces what is still as it was read, and notes it.
  absl::Status ReplaceHere(const ResealOp& op, const std::vector<ContentReplacement>& replacements,
                           absl::Time now, std::set<RecordId>& damaged, ResealStep& step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  // The record as it was, or nullopt if a part of it is not as it was read: nothing is changed.
  absl::StatusOr<std::optional<StoredRecord>> ReplaceContent(const ContentReplacement& replacement)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  // Removes a record, or reduces it to a tombstone, and notes it.
  absl::Status Forget(const PurgeOp& op, const StoredRecord& stored, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);

  // Answers `ops` inside a transaction, without those that are damaged already; a failure fails all
  // of it.
  template <typename AnswerType, typename Op>
  absl::Status AnswerAll(absl::Span<const Op> ops, absl::Time now, std::vector<AnswerType>& answers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  // Commits a transaction in which `answer_all` meets no damaged record that is new:
  // `count_damaged` is how many it met so far.
  absl::Status Transact(absl::FunctionRef<absl::Status(absl::Time now)> answer_all,
                        absl::FunctionRef<std::size_t()> count_damaged)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  // One transaction for all of `ops`.
  template <typename AnswerType, typename Op>
  std::vector<AnswerType> RunBatch(absl::Span<const Op> ops);

  // FAILED_PRECONDITION unless both connections have the file that place_ watches: their logs would
  // be one, by its name.
  absl::Status CheckOneFile(const std::string& file);
  // Looks at the files.
  absl::Status CheckPlace();
  // The result of the last look.
  absl::Status InPlace() const;

  // The size of the write-ahead log; warns of a large one. nullopt if it cannot be found out.
  std::optional<std::int64_t> MeasureWal() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reader_mutex_);

  // OK if a commit succeeds, or one did recently.
  absl::Status ProveCommits();

  // In the whole microseconds that the file keeps.
  absl::Time Now() const;

  const Clock& clock_;
  const std::string wal_;
  const std::int64_t large_wal_bytes_;
  // Released last: after the file is closed.
  const FileLock lock_;
  const SqliteFilePlace place_;
  std::atomic<bool> moved_{false};
  Mutex writer_mutex_;
  PreparedConnection writer_ ABSL_GUARDED_BY(writer_mutex_);
  // When one did, by the monotonic clock.
  std::optional<std::chrono::steady_clock::time_point> proved_at_ ABSL_GUARDED_BY(writer_mutex_);
  Mutex reader_mutex_;
  PreparedConnection reader_ ABSL_GUARDED_BY(reader_mutex_);
  // The last ones that could be read.
  StoreGauges gauges_ ABSL_GUARDED_BY(reader_mutex_);
  // When another warning of a large log is due.
  std::chrono::steady_clock::time_point next_wal_warning_ ABSL_GUARDED_BY(reader_mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_SQLITE_SQLITE_STORE_H_
