#include "server/store/sqlite/sqlite_store.h"

#include <spdlog/spdlog.h>
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

#include "core/private_file.h"
#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/reply.h"
#include "server/store/batch_weight.h"
#include "server/store/decision.h"
#include "server/store/reply_envelope.h"
#include "server/store/sqlite/schema.h"
#include "server/store/sqlite/transaction.h"

namespace idempotency::internal {
namespace {

namespace fs = std::filesystem;

// How long a successful commit counts as proof for the next one.
constexpr std::chrono::seconds kCommitProof(5);

constexpr std::chrono::minutes kPauseBetweenWalWarnings(1);

// The canonical name of the file, with links resolved: the lock is by name.
absl::StatusOr<std::string> CanonicalPath(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("the path of the SQLite file is empty");
  std::error_code error;
  if (fs::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a directory; name a file in it"));
  }
  const fs::path absolute = fs::absolute(path, error);
  if (!fs::is_directory(absolute.parent_path(), error)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the directory ", absolute.parent_path().string(), " does not exist; create it first"));
  }
  // Before the links are resolved: one that leads to no file would stay.
  CreatePrivateFile(absolute.string());
  const fs::path canonical = fs::weakly_canonical(absolute, error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat("cannot resolve ", path, ": ", error.message()));
  }
  return canonical.string();
}

absl::Status CannotUse(const std::string& path, const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat(path, " ", what));
}

absl::Status OpenConnection(SqliteConnection& connection, const std::string& path,
                            absl::Duration busy_timeout) {
  const int result = connection.Open(path, busy_timeout);
  if (result != SQLITE_OK) {
    return CannotUse(path, absl::StrCat("cannot be opened (", sqlite3_errstr(result),
                                        "); check its permissions"));
  }
  if (connection.read_only()) {
    return CannotUse(path, "is read-only; make it writable for this user");
  }
  return CheckSqliteSchema(connection, path);
}

// WAL, so that readers do not wait for the writer; FULL, so that a commit is on
// disk before it is answered.
absl::Status ConfigureWriter(SqliteConnection& connection, const std::string& path) {
  const absl::StatusOr<std::string> mode = connection.ReadText("PRAGMA journal_mode = WAL");
  if (!mode.ok() || *mode != "wal") {
    return CannotUse(path, "cannot use a write-ahead log; use a local file system");
  }
  const absl::Status configured = connection.Execute(
      "PRAGMA synchronous = FULL;"
      "PRAGMA foreign_keys = ON;"
      "PRAGMA trusted_schema = OFF;"
      "PRAGMA cell_size_check = ON;"
      // 32 MiB, so that the right edge of the table and the upper levels of its
      // index are not read again for each batch; and the log is copied back into
      // the file every 16 MiB, since the same few pages change again and again.
      "PRAGMA cache_size = -32768;"
      "PRAGMA wal_autocheckpoint = 4000;"
      // 64 MiB: the log of a burst does not stay on disk permanently.
      "PRAGMA journal_size_limit = 67108864");
  return configured.ok() ? configured : CannotUse(path, "cannot be configured");
}

// SQLite opens a log, or the index of one, that this user can only read, and refuses the first
// write. Where another program has the write lock, the answer is OK.
absl::Status CheckLogIsWritable(SqliteConnection& connection, const std::string& path) {
  SqliteTransaction transaction(connection);
  if (transaction.Begin().ok() || connection.error_code() != SQLITE_READONLY) {
    return absl::OkStatus();
  }
  return CannotUse(path,
                   "has a -wal or a -shm that this user cannot write; give both the owner of the "
                   "database");
}

// `Statements::Prepare` for a connection.
template <typename Statements>
absl::StatusOr<std::unique_ptr<Statements>> PrepareFor(SqliteConnection& connection,
                                                       const std::string& path) {
  absl::StatusOr<Statements> statements = Statements::Prepare(connection);
  if (!statements.ok()) return CannotUse(path, "lacks the tables of this schema version");
  return std::make_unique<Statements>(*std::move(statements));
}

// The failure of a read belongs to its operation if the row is damaged, and to
// the batch otherwise.
bool IsOfRecord(const absl::Status& status) { return absl::IsDataLoss(status); }

// Answers an operation whose record cannot be read. Not OK if the batch cannot continue.
template <typename Answer>
absl::Status Unread(const absl::Status& failure, Answer& answer) {
  answer = failure;
  return IsOfRecord(failure) ? absl::OkStatus() : failure;
}

const absl::Status& StatusOf(const absl::Status& answer) { return answer; }
template <typename Value>
const absl::Status& StatusOf(const absl::StatusOr<Value>& answer) {
  return answer.status();
}

template <typename Answer>
bool IsDamaged(const Answer& answer) {
  return IsOfRecord(StatusOf(answer));
}

template <typename Answer>
std::size_t CountDamaged(const std::vector<Answer>& answers) {
  return static_cast<std::size_t>(std::count_if(answers.begin(), answers.end(), IsDamaged<Answer>));
}

// The answers of a transaction that failed.
template <typename Answer>
void FailAll(const absl::Status& status, std::vector<Answer>& answers) {
  for (Answer& answer : answers) {
    if (!IsDamaged(answer)) answer = Answer(status);
  }
}

// So that no record is returned while a crash of the machine can remove it.
absl::Status SyncRecoveredLog(SqliteConnection& connection, const std::string& file) {
  if (connection.SyncLog().ok()) return absl::OkStatus();
  return CannotUse(file, "cannot be synced");
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const std::string& path,
                                                               const SqliteOptions& options) {
  const absl::StatusOr<std::string> file = CanonicalPath(path);
  if (!file.ok()) return file.status();
  if (IsMountedAlone(*file)) {
    return CannotUse(
        *file,
        "is mounted alone: its log and its lock would be outside of the mount, so that "
        "another container could use the file at the same time, and completions would "
        "be lost with this one. Mount its directory instead");
  }
  absl::StatusOr<FileLock> lock = FileLock::Acquire(absl::StrCat(*file, ".lock"));
  if (!lock.ok()) return lock.status();
  absl::StatusOr<PreparedConnection> writer = OpenWriter(*file, options);
  if (!writer.ok()) return writer.status();
  absl::StatusOr<PreparedConnection> reader = OpenReader(*file, options);
  if (!reader.ok()) return reader.status();
  auto store = absl::WrapUnique(
      new SqliteStore(*file, options, *std::move(lock), *std::move(writer), *std::move(reader)));
  if (absl::Status same = store->CheckOneFile(*file); !same.ok()) return same;
  return store;
}

absl::Status SqliteStore::PrepareAll(const std::string& file, PreparedConnection& prepared) {
  auto records = PrepareFor<SqliteRecords>(prepared.connection, file);
  if (!records.ok()) return records.status();
  prepared.records = *std::move(records);
  auto audit = PrepareFor<SqliteAudit>(prepared.connection, file);
  if (!audit.ok()) return audit.status();
  prepared.audit = *std::move(audit);
  return absl::OkStatus();
}

absl::StatusOr<SqliteStore::PreparedConnection> SqliteStore::OpenWriter(
    const std::string& file, const SqliteOptions& options) {
  PreparedConnection prepared;
  SqliteConnection& connection = prepared.connection;
  absl::Status status = OpenConnection(connection, file, options.busy_timeout);
  // Known to be ours now. An existing file, those that a crash left, and the lock, which stays.
  if (status.ok()) {
    for (const char* suffix : {"", "-wal", "-shm", ".lock"}) {
      RestrictFile(absl::StrCat(file, suffix));
    }
  }
  if (status.ok() && options.check_file) status = CheckSqliteFile(connection, file);
  if (status.ok()) status = ConfigureWriter(connection, file);
  if (status.ok()) status = CheckLogIsWritable(connection, file);
  if (status.ok()) status = MigrateSqliteSchema(connection, file);
  if (status.ok()) status = SyncRecoveredLog(connection, file);
  if (status.ok()) status = PrepareAll(file, prepared);
  if (!status.ok()) return status;
  return prepared;
}

absl::StatusOr<SqliteStore::PreparedConnection> SqliteStore::OpenReader(
    const std::string& file, const SqliteOptions& options) {
  PreparedConnection prepared;
  SqliteConnection& connection = prepared.connection;
  const absl::Status opened = OpenConnection(connection, file, options.busy_timeout);
  if (!opened.ok()) return opened;
  if (!connection.Execute("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF").ok()) {
    return CannotUse(file, "cannot be configured");
  }
  if (absl::Status status = PrepareAll(file, prepared); !status.ok()) return status;
  return prepared;
}

SqliteStore::SqliteStore(const std::string& file, const SqliteOptions& options, FileLock lock,
                         PreparedConnection writer, PreparedConnection reader)
    : clock_(*options.clock),
      wal_(absl::StrCat(file, "-wal")),
      large_wal_bytes_(options.large_wal_bytes),
      lock_(std::move(lock)),
      place_(SqliteFilePlace::Of(file)),
      writer_(std::move(writer)),
      reader_(std::move(reader)) {}

absl::Status SqliteStore::CheckOneFile(const std::string& file) {
  bool moved = false;
  {
    MutexLock lock(writer_mutex_);
    moved = writer_.connection.HasMoved();
  }
  {
    MutexLock lock(reader_mutex_);
    moved = moved || reader_.connection.HasMoved();
  }
  if (!moved) return absl::OkStatus();
  return CannotUse(file, "was replaced while it was opened; start again with the right one");
}

absl::Time SqliteStore::Now() const {
  return absl::FromUnixMicros(absl::ToUnixMicros(clock_.Now()));
}

template <typename AnswerType, typename Op>
absl::Status SqliteStore::AnswerAll(absl::Span<const Op> ops, absl::Time now,
                                    std::vector<AnswerType>& answers) {
  BatchWeight weight;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (IsDamaged(answers[i])) continue;  // an earlier transaction met it
    if (weight.IsFull()) {
      answers[i] = AnswerType(BatchWeight::NextCall());
      continue;
    }
    const absl::Status status = Answer(ops[i], now, answers[i]);
    if (!status.ok()) return status;
    weight.Add(answers[i]);
  }
  return absl::OkStatus();
}

// A transaction that met a damaged page can write no more: it is rolled back and repeated without
// that record, at most once for each.
absl::Status SqliteStore::Transact(absl::FunctionRef<absl::Status(absl::Time)> answer_all,
                                   absl::FunctionRef<std::size_t()> count_damaged) {
  if (absl::Status placed = InPlace(); !placed.ok()) return placed;
  for (std::size_t known = 0;;) {
    SqliteTransaction transaction(writer_.connection);
    absl::Status status = transaction.Begin();
    // The clock after the wait for the write lock: a lease may have expired
    // meanwhile.
    if (status.ok()) status = answer_all(Now());
    if (const std::size_t damaged = count_damaged(); damaged > known) {
      known = damaged;
      continue;
    }
    return status.ok() ? transaction.Commit() : status;
  }
}

template <typename AnswerType, typename Op>
std::vector<AnswerType> SqliteStore::RunBatch(absl::Span<const Op> ops) {
  std::vector<AnswerType> answers(ops.size());
  MutexLock lock(writer_mutex_);
  const absl::Status status = Transact([&](absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                                           writer_mutex_) { return AnswerAll(ops, now, answers); },
                                       [&] { return CountDamaged(answers); });
  if (!status.ok()) FailAll(status, answers);
  return answers;
}

SharedAnswers SqliteStore::CompleteAndReserve(absl::Span<const CompleteOp> completions,
                                              absl::Span<const ReserveOp> reservations) {
  SharedAnswers answers;
  answers.completions.resize(completions.size());
  answers.verdicts.resize(reservations.size());
  MutexLock lock(writer_mutex_);
  const auto answer_all = [&](absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_) {
    absl::Status status = AnswerAll(completions, now, answers.completions);
    if (status.ok()) status = AnswerAll(reservations, now, answers.verdicts);
    return status;
  };
  const absl::Status status = Transact(answer_all, [&] {
    return CountDamaged(answers.completions) + CountDamaged(answers.verdicts);
  });
  if (!status.ok()) {
    FailAll(status, answers.completions);
    FailAll(status, answers.verdicts);
  }
  return answers;
}

std::vector<absl::StatusOr<Verdict>> SqliteStore::Reserve(absl::Span<const ReserveOp> ops) {
  return RunBatch<absl::StatusOr<Verdict>>(ops);
}

std::vector<absl::StatusOr<Completion>> SqliteStore::Complete(absl::Span<const CompleteOp> ops) {
  return RunBatch<absl::StatusOr<Completion>>(ops);
}

std::vector<absl::Status> SqliteStore::Release(absl::Span<const ReleaseOp> ops) {
  return RunBatch<absl::Status>(ops);
}

std::vector<absl::StatusOr<Extension>> SqliteStore::Extend(absl::Span<const ExtendOp> ops) {
  return RunBatch<absl::StatusOr<Extension>>(ops);
}

absl::Status SqliteStore::Answer(const ReserveOp& op, absl::Time now,
                                 absl::StatusOr<Verdict>& answer) {
  auto stored = writer_.records->Find(op.id, SqliteRecords::Detail::kWhole);
  if (!stored.ok()) return Unread(stored.status(), answer);
  ReserveDecision decision = DecideReserve(op, now, *std::move(stored));
  const Uuid token = decision.grant.repeated ? decision.grant.token : Uuid::Random();
  if (decision.action == ReserveAction::kAnswer || decision.action == ReserveAction::kMarkUnknown) {
    answer = std::move(decision.answer);
  } else {
    answer = Verdict(ToReserved(decision.grant, token, now));
  }
  return Write(op, decision, token);
}

absl::Status SqliteStore::Write(const ReserveOp& op, const ReserveDecision& decision,
                                const Uuid& token) {
  SqliteRecords& records = *writer_.records;
  const Grant& grant = decision.grant;
  switch (decision.action) {
    case ReserveAction::kAnswer:
      break;
    case ReserveAction::kMarkUnknown:
      return records.MarkUnknown(op.id, decision.expected);
    case ReserveAction::kInsert:
      return records.Insert(op, grant, token);
    case ReserveAction::kStartAfresh:
      return records.StartAfresh(op, grant, token, decision.expected);
    case ReserveAction::kRenewLease:
      return records.RenewLease(op.id, grant.lease_expires_at, decision.expected);
    case ReserveAction::kGrant:
    case ReserveAction::kGrantRecovery:
      return records.GrantNext(op, grant, token, decision.expected);
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::Answer(const CompleteOp& op, absl::Time now,
                                 absl::StatusOr<Completion>& answer) {
  const auto stored = writer_.records->Find(op.id, SqliteRecords::Detail::kSlim);
  if (!stored.ok()) return Unread(stored.status(), answer);
  CompleteDecision decision = DecideComplete(op, now, *stored);
  answer = std::move(decision.answer);
  return decision.writes ? writer_.records->Complete(op, now) : absl::OkStatus();
}

absl::Status SqliteStore::Answer(const ReleaseOp& op, absl::Time now, absl::Status& answer) {
  const auto stored = writer_.records->Find(op.id, SqliteRecords::Detail::kSlim);
  if (!stored.ok()) return Unread(stored.status(), answer);
  ReleaseDecision decision = DecideRelease(op, now, *stored);
  answer = std::move(decision.answer);
  if (!decision.becomes) return absl::OkStatus();
  return writer_.records->Release(op, *decision.becomes, decision.lease_expires_at);
}

absl::Status SqliteStore::Answer(const ExtendOp& op, absl::Time now,
                                 absl::StatusOr<Extension>& answer) {
  const auto stored = writer_.records->Find(op.id, SqliteRecords::Detail::kSlim);
  if (!stored.ok()) return Unread(stored.status(), answer);
  ExtendDecision decision = DecideExtend(op, now, *stored);
  answer = std::move(decision.answer);
  return decision.lease_expires_at ? writer_.records->Extend(op, *decision.lease_expires_at)
                                   : absl::OkStatus();
}

std::vector<absl::StatusOr<Record>> SqliteStore::Get(absl::Span<const GetOp> ops) {
  std::vector<absl::StatusOr<Record>> answers;
  answers.reserve(ops.size());
  MutexLock lock(reader_mutex_);
  BatchWeight weight;
  const absl::Status placed = InPlace();
  for (const GetOp& op : ops) {
    if (!placed.ok()) {
      answers.emplace_back(placed);
      continue;
    }
    if (weight.IsFull()) {
      answers.push_back(BatchWeight::NextCall());
      continue;
    }
    auto stored = reader_.records->Find(op.id, SqliteRecords::Detail::kWhole);
    if (stored.ok()) {
      answers.push_back(DecideGet(op, Now(), *std::move(stored)));
    } else {
      answers.push_back(stored.status());
    }
    weight.Add(answers.back());
  }
  return answers;
}

absl::StatusOr<SweepProgress> SqliteStore::Sweep(const SweepOp& op) {
  MutexLock lock(writer_mutex_);
  // Outside of the transaction: a damaged page would refuse its writes.
  const auto page = writer_.records->ReadSweepPage(op.after, op.until, op.limit);
  if (!page.ok()) return page.status();
  std::set<RecordId> damaged;
  absl::StatusOr<SweepProgress> progress = SweepProgress();
  const absl::Status swept = Transact(
      [&](absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_) {
        progress = SweepRows(page->rows, now, damaged);
        return progress.status();
      },
      [&] { return damaged.size(); });
  if (!swept.ok()) return swept;
  // It stopped before the page's end.
  if (progress->next) return progress;
  progress->visited = page->looked_at;
  progress->next = page->more ? page->last : op.until;
  return progress;
}

absl::StatusOr<SweepProgress> SqliteStore::SweepRows(
    const std::vector<SqliteRecords::SweepRow>& rows, absl::Time now, std::set<RecordId>& damaged) {
  SweepProgress progress;
  std::int64_t bytes = 0;
  RecordId last;
  for (const SqliteRecords::SweepRow& row : rows) {
    if (bytes >= SqliteRecords::kMaxStepBytes) {
      progress.next = last;
      return progress;
    }
    last = row.id;
    progress.visited += 1;
    if (damaged.count(row.id) > 0) continue;
    if (DecideSweep(row.view, now) != SweepAction::kKeep) bytes += row.reply_bytes;
    const absl::Status done = SweepOne(row, now, progress);
    // A damaged one stays unchanged; a read of that record reports it. The others are for the
    // repetition: this transaction writes no more.
    if (IsOfRecord(done)) {
      damaged.insert(row.id);
      return progress;
    }
    if (!done.ok()) return done;
  }
  return progress;
}

absl::Status SqliteStore::SweepOne(const SqliteRecords::SweepRow& row, absl::Time now,
                                   SweepProgress& progress) {
  SqliteRecords& records = *writer_.records;
  const SweepAction action = DecideSweep(row.view, now);
  if (action == SweepAction::kEntomb || action == SweepAction::kMarkUnknown) {
    // The schema refuses to change a damaged one, and that would end every pass.
    const auto stored = records.Find(row.id, SqliteRecords::Detail::kSlim);
    if (!stored.ok()) return stored.status();
  }
  switch (action) {
    case SweepAction::kKeep:
      return absl::OkStatus();
    case SweepAction::kRemove:
      progress.removed += 1;
      return records.Remove(row.id, row.expected);
    case SweepAction::kEntomb:
      progress.entombed += 1;
      return records.LeaveTombstone(row.id, row.expected);
    case SweepAction::kMarkUnknown:
      progress.marked_unknown += 1;
      return records.MarkUnknownToMaintain(row.id, row.expected);
    case SweepAction::kDropReply:
      break;
  }
  const auto stored = records.Find(row.id, SqliteRecords::Detail::kWhole);
  if (!stored.ok()) return stored.status();
  const absl::StatusOr<EncodedReply> rest = StoredWithoutContent(*(*stored)->record.reply);
  if (!rest.ok()) return absl::OkStatus();
  progress.replies_dropped += 1;
  return records.DropReply(row.id, *rest, row.expected);
}

// On a disk that is full or was made read-only, reads continue; so a write that changes
// nothing tests whether commits succeed.
absl::Status SqliteStore::ProveCommits() {
  MutexLock lock(writer_mutex_);
  if (proved_at_ && clock_.Monotonic() - *proved_at_ < kCommitProof) return absl::OkStatus();
  SqliteConnection& connection = writer_.connection;
  SqliteTransaction transaction(connection);
  if (absl::Status begun = transaction.Begin(); !begun.ok()) return begun;
  const auto version = connection.ReadInteger("PRAGMA user_version");
  if (!version.ok()) return version.status();
  const std::string write = absl::StrCat("PRAGMA user_version = ", *version);
  if (absl::Status written = connection.Execute(write.c_str()); !written.ok()) return written;
  absl::Status committed = transaction.Commit();
  if (committed.ok()) proved_at_ = clock_.Monotonic();
  return committed;
}

absl::StatusOr<UsageStep> SqliteStore::MeasureUsage(const UsageOp& op) {
  if (absl::Status placed = InPlace(); !placed.ok()) return placed;
  MutexLock lock(reader_mutex_);
  return reader_.records->MeasureUsage(op, Now());
}

absl::Status SqliteStore::InPlace() const {
  if (!moved_) return absl::OkStatus();
  return MakeError(Reason::kStoreUnavailable,
                   "a file of the record store was moved, removed or replaced while it was used",
                   RetryAfter(retry_delays::kSqliteUnconfirmed));
}

absl::Status SqliteStore::CheckPlace() {
  const std::optional<std::string> file = place_.FindMoved();
  const bool before = moved_.exchange(file.has_value());
  if (file && !before) {
    spdlog::error(
        "sqlite: {} was moved, removed or replaced while it was used: nothing that is written now "
        "can be found under that name. Put the files back; or stop idempotencyd, restore a backup "
        "if they are gone, and start it again",
        *file);
  } else if (!file && before) {
    spdlog::warn("sqlite: the files are in their places again");
  }
  return InPlace();
}

std::optional<std::int64_t> SqliteStore::MeasureWal() {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(wal_, error);
  if (error) return std::nullopt;
  const auto size = static_cast<std::int64_t>(bytes);
  const auto now = clock_.Monotonic();
  if (size <= large_wal_bytes_ || now < next_wal_warning_) return size;
  next_wal_warning_ = now + kPauseBetweenWalWarnings;
  spdlog::warn(
      "sqlite: {} has {} MiB, since another program reads the file in a transaction that does not "
      "end: the log cannot be reset, and grows until the disk is full. End that transaction or "
      "that "
      "program (docs/sqlite.md)",
      wal_, size / (1024 * 1024));
  return size;
}

absl::StatusOr<StoreGauges> SqliteStore::Inspect() {
  if (absl::Status placed = CheckPlace(); !placed.ok()) return placed;
  if (absl::Status proved = ProveCommits(); !proved.ok()) return proved;
  MutexLock lock(reader_mutex_);
  const absl::Time now = Now();
  const auto oldest = reader_.records->OldestReserved(now);
  const auto unknown = reader_.records->CountUnknown();
  // A damaged page is not a fault of commits, nor that of one gauge a fault of the other.
  if (oldest.ok()) {
    gauges_.oldest_reserved_age = std::max(now - oldest->value_or(now), absl::ZeroDuration());
  }
  if (unknown.ok()) gauges_.unknown_records = *unknown;
  gauges_.read = oldest.ok() && unknown.ok();
  gauges_.sqlite_wal_bytes = MeasureWal();
  return gauges_;
}

}  // namespace idempotency::internal
