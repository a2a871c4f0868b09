#include "grpc_idempotency/ledger/sqlite_ledger.h"

#include <sqlite3.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/mutex.h"
#include "core/sqlite_log.h"
#include "grpc_idempotency/errors.h"
#include "interceptors/server/log/guard_log.h"

namespace idempotency {

using internal::GuardLog;
using internal::LogEvent;
using internal::Mutex;
using internal::MutexLock;

namespace {

// OR ROLLBACK: a handler that ignores the error has nothing left to commit.
constexpr char kInsert[] =
    "INSERT OR ROLLBACK INTO idempotency_completions (record_id, namespace, scope, operation, key,"
    " fingerprints, attempt, created_at, sweepable_at, reply_digest, reply)"
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
constexpr char kFind[] =
    "SELECT namespace, scope, operation, key, fingerprints, attempt, created_at, reply_digest,"
    " reply FROM idempotency_completions WHERE record_id = ?1";
constexpr char kSweep[] =
    "DELETE FROM idempotency_completions WHERE record_id IN (SELECT record_id"
    " FROM idempotency_completions WHERE sweepable_at < ?1 ORDER BY sweepable_at LIMIT ?2)";
// The number of keys on record_id alone.
constexpr char kCheckKey[] =
    "SELECT count(*) FROM pragma_index_list('idempotency_completions') AS l WHERE l.\"unique\""
    " AND NOT l.partial AND (SELECT group_concat(i.name) FROM pragma_index_info(l.name) AS i)"
    " = 'record_id'";

// The name and the file of each attached database; no file for one in memory.
constexpr char kDatabases[] = "SELECT name, file FROM pragma_database_list";

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

// nullptr if it cannot be prepared.
Statement Prepare(sqlite3* database, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(database, sql, -1, &statement, nullptr);
  return Statement(statement);
}

// The bound data outlives the step; the step reports a failure to bind.
void BindBlob(const Statement& statement, int index, const void* data, std::size_t size) {
  sqlite3_bind_blob64(statement.get(), index, size == 0 ? "" : data, size, SQLITE_STATIC);
}

void BindText(const Statement& statement, int index, const std::string& text) {
  sqlite3_bind_text64(statement.get(), index, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
}

std::string Text(const Statement& statement, int column) {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement.get(), column));
  const int size = sqlite3_column_bytes(statement.get(), column);
  return data == nullptr ? std::string() : std::string(data, static_cast<std::size_t>(size));
}

// Not sqlite3_errmsg: it can contain SQL.
absl::Status Unreachable(int code, GuardLog& log) {
  log.Warn(LogEvent::kLedgerUnavailable, "ledger: sqlite: ", sqlite3_errstr(code), " (result code ",
           code, ")");
  return MakeError(Reason::kStoreUnavailable, "the completion ledger's file could not be queried");
}

absl::Status Unreachable(sqlite3* database, GuardLog& log) {
  return Unreachable(sqlite3_extended_errcode(database), log);
}

// So that no row decides a reply while a crash of the machine can remove the row: a process that
// was killed in a commit may not have synced it. After the first read. A rollback journal is synced
// before what it protects is changed.
absl::Status SyncRecoveredLog(sqlite3* database, GuardLog& log) {
  const Statement mode = Prepare(database, "PRAGMA journal_mode");
  if (mode == nullptr || sqlite3_step(mode.get()) != SQLITE_ROW) return Unreachable(database, log);
  if (Text(mode, 0) != "wal") return absl::OkStatus();
  const int result = internal::SyncSqliteLog(database);
  return result == SQLITE_OK ? absl::OkStatus() : Unreachable(result, log);
}

// Rolls back any transaction that the statement left open.
absl::Status RolledBack(sqlite3* database, absl::Status why) {
  if (sqlite3_get_autocommit(database) == 0) {
    sqlite3_exec(database, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  return why;
}

// SQLite commits one file after the other in WAL mode, and under some settings of the other modes:
// a crash between two of them would leave the effects without the row, or the row without them.
absl::Status CheckWritesOneFile(sqlite3* database) {
  int written = 0;
  const Statement databases = Prepare(database, kDatabases);
  int result = SQLITE_ERROR;
  while (databases != nullptr && (result = sqlite3_step(databases.get())) == SQLITE_ROW) {
    if (Text(databases, 1).empty()) continue;
    if (sqlite3_txn_state(database, Text(databases, 0).c_str()) == SQLITE_TXN_WRITE) ++written;
  }
  if (result == SQLITE_DONE && written <= 1) return absl::OkStatus();
  if (result != SQLITE_DONE) {
    return MakeError(Reason::kStoreUnavailable, "the attached databases could not be queried");
  }
  return absl::FailedPreconditionError(
      "this transaction writes more than one file, which SQLite does not commit as one: keep "
      "effects and completion ledger in one file. BEGIN IMMEDIATE counts as a write of each "
      "attached file: use BEGIN, or attach files that are only read with mode=ro");
}

// The extended result code.
int Insert(sqlite3* database, const LedgerRow& row) {
  const Statement insert = Prepare(database, kInsert);
  if (insert == nullptr) return sqlite3_extended_errcode(database);
  const absl::Time now = absl::Now();
  const Uuid::Bytes& id = row.record_id.bytes();
  BindBlob(insert, 1, id.data(), id.size());
  BindText(insert, 2, row.record_key.name_space);
  BindText(insert, 3, row.record_key.scope);
  BindText(insert, 4, row.record_key.operation);
  BindText(insert, 5, row.record_key.key);
  BindBlob(insert, 6, row.fingerprints.data(), row.fingerprints.size());
  sqlite3_bind_int64(insert.get(), 7, row.attempt);
  sqlite3_bind_int64(insert.get(), 8, absl::ToUnixMicros(now));
  sqlite3_bind_int64(insert.get(), 9, absl::ToUnixMicros(now + row.life));
  BindBlob(insert, 10, row.reply.digest.data(), row.reply.digest.size());
  BindBlob(insert, 11, row.reply.bytes.data(), row.reply.bytes.size());
  const int result = sqlite3_step(insert.get());
  return result == SQLITE_DONE ? result : sqlite3_extended_errcode(database);
}

}  // namespace

absl::Status InsertLedgerRow(sqlite3* database, const absl::StatusOr<LedgerRow>& row) {
  if (sqlite3_get_autocommit(database) != 0) {
    return absl::FailedPreconditionError(
        "RecordInTransaction needs an open transaction on this connection: run BEGIN first");
  }
  if (!row.ok()) return RolledBack(database, row.status());
  const int result = Insert(database, *row);
  if (result == SQLITE_DONE) {
    absl::Status atomic = CheckWritesOneFile(database);
    return atomic.ok() ? atomic : RolledBack(database, std::move(atomic));
  }
  if (result == SQLITE_CONSTRAINT_PRIMARYKEY) {
    return RolledBack(database,
                      MakeErrorWithCode(Reason::kReservationLost, absl::StatusCode::kAborted,
                                        "another attempt has committed this operation: call again "
                                        "with the same idempotency key for its reply"));
  }
  const LogSink log = GuardLog::SinkOr(row->log, LogEvent::kLedgerRowNotWritten);
  log(LogSeverity::kWarning,
      absl::StrCat("ledger: sqlite: ", sqlite3_errstr(result), " (result code ", result, ")"));
  return RolledBack(
      database,
      MakeError(Reason::kStoreUnavailable,
                "the completion ledger's row could not be written: nothing may be committed"));
}

LedgerCommit CommitLedgerTransaction(sqlite3* database, const LedgerCommitPermit& permit) {
  if (!permit.status.ok()) {
    return LedgerCommit::NotCommitted(RolledBack(database, permit.status));
  }
  // Again: the handler may have written after the row.
  if (absl::Status atomic = CheckWritesOneFile(database); !atomic.ok()) {
    return LedgerCommit::NotCommitted(RolledBack(database, std::move(atomic)));
  }
  if (sqlite3_exec(database, "COMMIT", nullptr, nullptr, nullptr) == SQLITE_OK) {
    return LedgerCommit::Committed();
  }
  const int code = sqlite3_extended_errcode(database);
  const LogSink log = GuardLog::SinkOr(permit.log, LogEvent::kLedgerRowNotWritten);
  log(LogSeverity::kWarning, absl::StrCat("ledger: sqlite: a commit failed: ", sqlite3_errstr(code),
                                          " (result code ", code, ")"));
  // A transaction that is still open was not committed: for example because a reader keeps the
  // file busy.
  if (sqlite3_get_autocommit(database) != 0) return LedgerCommit::InDoubt();
  const LedgerCommit refused = LedgerCommit::NotCommitted();
  return LedgerCommit::NotCommitted(RolledBack(database, refused.status()));
}

struct SqliteLedger::File {
  struct Close {
    void operator()(sqlite3* opened) const { sqlite3_close_v2(opened); }
  };

  File(sqlite3* opened, LogSink sink) : log(std::move(sink)), database(opened) {}

  GuardLog log;
  Mutex mutex;
  const std::unique_ptr<sqlite3, Close> database ABSL_PT_GUARDED_BY(mutex);
};

absl::StatusOr<std::unique_ptr<SqliteLedger>> SqliteLedger::Open(
    const std::string& path, const SqliteLedgerOptions& options) {
  sqlite3* opened = nullptr;
  // Opened for writing: after a crash the first reader replays the journal.
  const int result =
      sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  // Even a failed open leaves a handle to close.
  auto file = std::make_unique<File>(opened, options.log);
  if (result != SQLITE_OK) return Unreachable(opened, file->log);
  sqlite3_busy_timeout(opened, static_cast<int>(absl::ToInt64Milliseconds(options.busy_timeout)));
  if (Prepare(opened, kFind) == nullptr) {
    if (sqlite3_errcode(opened) != SQLITE_ERROR) return Unreachable(opened, file->log);
    return absl::FailedPreconditionError(
        "this database has no table idempotency_completions of this version: apply "
        "interceptors/server/ledger/migrations/sqlite to it");
  }
  const Statement key = Prepare(opened, kCheckKey);
  if (key == nullptr || sqlite3_step(key.get()) != SQLITE_ROW) {
    return Unreachable(opened, file->log);
  }
  if (sqlite3_column_int(key.get(), 0) == 0) {
    return absl::FailedPreconditionError(
        "idempotency_completions has no unique key on record_id alone, so nothing would prevent a "
        "second effect: create it as interceptors/server/ledger/migrations/sqlite does");
  }
  if (absl::Status synced = SyncRecoveredLog(opened, file->log); !synced.ok()) return synced;
  return std::unique_ptr<SqliteLedger>(new SqliteLedger(std::move(file)));
}

SqliteLedger::SqliteLedger(std::unique_ptr<File> file) : file_(std::move(file)) {}

SqliteLedger::~SqliteLedger() = default;

absl::StatusOr<std::optional<LedgerEntry>> SqliteLedger::Find(const RecordId& record_id) {
  MutexLock lock(file_->mutex);
  const Statement find = Prepare(file_->database.get(), kFind);
  if (find == nullptr) return Unreachable(file_->database.get(), file_->log);
  const Uuid::Bytes& id = record_id.bytes();
  BindBlob(find, 1, id.data(), id.size());
  const int result = sqlite3_step(find.get());
  if (result == SQLITE_DONE) return std::nullopt;
  if (result != SQLITE_ROW) return Unreachable(file_->database.get(), file_->log);
  EncodedReply reply;
  const std::string digest = Text(find, 7);
  std::copy_n(digest.begin(), std::min(digest.size(), reply.digest.size()), reply.digest.begin());
  reply.bytes = Text(find, 8);
  absl::StatusOr<LedgerEntry> entry = LedgerEntry::Decode(
      {Text(find, 0), Text(find, 1), Text(find, 2), Text(find, 3)}, Text(find, 4),
      static_cast<std::uint32_t>(sqlite3_column_int64(find.get(), 5)), reply,
      absl::FromUnixMicros(sqlite3_column_int64(find.get(), 6)));
  if (!entry.ok()) return entry.status();
  return *std::move(entry);
}

absl::StatusOr<std::int64_t> SqliteLedger::Sweep(int batch_rows) {
  MutexLock lock(file_->mutex);
  const Statement sweep = Prepare(file_->database.get(), kSweep);
  if (sweep == nullptr) return Unreachable(file_->database.get(), file_->log);
  sqlite3_bind_int64(sweep.get(), 1, absl::ToUnixMicros(absl::Now()));
  sqlite3_bind_int(sweep.get(), 2, batch_rows);
  if (sqlite3_step(sweep.get()) != SQLITE_DONE) {
    return Unreachable(file_->database.get(), file_->log);
  }
  return sqlite3_changes64(file_->database.get());
}

}  // namespace idempotency
