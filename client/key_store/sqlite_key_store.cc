#include "grpc_idempotency/client/sqlite_key_store.h"

#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"

#include "core/mutex.h"
#include "core/private_file.h"
#include "core/sqlite_file_place.h"
#include "core/sqlite_log.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/uuid.h"

namespace idempotency {

using internal::CreatePrivateFile;
using internal::IsMountedAlone;
using internal::Mutex;
using internal::MutexLock;
using internal::RestrictFile;
using internal::SqliteFilePlace;

namespace {

// "IDKS", in the file's header.
constexpr std::int64_t kApplicationId = 0x49444b53;
constexpr std::int64_t kVersion = 1;

// Between two looks at a file that another process uses, where SQLite itself does not wait.
constexpr int kPauseMillis = 5;

// One transaction, so that a file has all of it or is still empty.
constexpr char kSchema[] = R"sql(
CREATE TABLE keys (
  -- The application's name of the work.
  work TEXT NOT NULL PRIMARY KEY,
  key TEXT NOT NULL,
  -- Microseconds since 1970, UTC.
  created_at INTEGER NOT NULL
) STRICT;
PRAGMA application_id = 1229212499;
PRAGMA user_version = 1;
)sql";
static_assert(kApplicationId == 1229212499 && kVersion == 1);

// One statement, executed once. Finalised at the end of its scope.
class Statement {
 public:
  Statement(sqlite3* database, const char* sql) : database_(database) {
    sqlite3_stmt* statement = nullptr;
    result_ = sqlite3_prepare_v2(database, sql, -1, &statement, nullptr);
    statement_.reset(statement);
  }

  // Bound values are not copied.
  Statement& Bind(int index, std::string_view text) {
    return Note(sqlite3_bind_text64(statement_.get(), index, text.data(), text.size(),
                                    SQLITE_STATIC, SQLITE_UTF8));
  }
  Statement& Bind(int index, std::int64_t value) {
    return Note(sqlite3_bind_int64(statement_.get(), index, value));
  }
  // True: there is a row. False: done, or failed.
  bool Step() {
    if (result_ != SQLITE_OK) return false;
    const int result = sqlite3_step(statement_.get());
    if (result != SQLITE_ROW && result != SQLITE_DONE) {
      result_ = sqlite3_extended_errcode(database_);
    }
    return result == SQLITE_ROW;
  }
  bool ok() const { return result_ == SQLITE_OK; }
  int result() const { return result_; }

  std::string Text(int column) const {
    const auto* const text = sqlite3_column_text(statement_.get(), column);
    if (text == nullptr) return "";
    return {reinterpret_cast<const char*>(text),
            static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
  }
  std::int64_t Integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  Statement& Note(int result) {
    if (result_ == SQLITE_OK) result_ = result;
    return *this;
  }

  sqlite3* const database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int result_;
};

// None if it is zero or less.
void SetBusyTimeout(sqlite3* database, absl::Duration timeout) {
  const absl::Duration whole = absl::Ceil(timeout, absl::Milliseconds(1));
  sqlite3_busy_timeout(database, static_cast<int>(absl::ToInt64Milliseconds(whole)));
}

int Execute(sqlite3* database, const char* sql) {
  return sqlite3_exec(database, sql, nullptr, nullptr, nullptr);
}

// Rolled back unless committed.
class Transaction {
 public:
  enum class Kind {
    // All reads see one state of the file.
    kReads,
    // And none writes between them and the commit.
    kWrites,
  };

  Transaction(sqlite3* database, Kind kind)
      : database_(database),
        result_(Execute(database, kind == Kind::kReads ? "BEGIN" : "BEGIN IMMEDIATE")) {}
  ~Transaction() {
    if (sqlite3_get_autocommit(database_) == 0) Execute(database_, "ROLLBACK");
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  int result() const { return result_; }
  int Commit() { return Execute(database_, "COMMIT"); }

 private:
  sqlite3* const database_;
  const int result_;
};

// SQLite's text contains no keys, but only its code is useful.
absl::Status Unavailable(int result) {
  return MakeError(Reason::kStoreUnavailable,
                   absl::StrCat("the key store cannot be read or written (SQLite result ", result,
                                "): nothing was sent"));
}

absl::Status CannotUse(const std::string& path, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(path, " ", what));
}

absl::Status CheckWork(std::string_view work) {
  if (work.empty()) return InvalidField("work", "must not be empty");
  if (work.size() > limits::kMaxWorkBytes) {
    return InvalidField("work", absl::StrCat("must not have more than ", limits::kMaxWorkBytes,
                                             " bytes, but has ", work.size()));
  }
  return absl::OkStatus();
}

std::optional<std::int64_t> ReadInteger(sqlite3* database, const char* sql) {
  Statement statement(database, sql);
  if (!statement.Step()) return std::nullopt;
  return statement.Integer(0);
}

enum class Content { kNothing, kKeys };

// FAILED_PRECONDITION if the file has anything else. Only in a transaction: another process may
// create its table between two reads.
absl::StatusOr<Content> ReadContent(sqlite3* database, const std::string& path) {
  std::optional<std::int64_t> objects;
  std::optional<std::int64_t> application;
  std::optional<std::int64_t> version;
  // The text of the failure is that of the last statement.
  if (!(objects = ReadInteger(database, "SELECT count(*) FROM sqlite_schema")) ||
      !(application = ReadInteger(database, "PRAGMA application_id")) ||
      !(version = ReadInteger(database, "PRAGMA user_version"))) {
    return CannotUse(
        path, absl::StrCat("cannot be read (", sqlite3_errmsg(database), "); use a separate file"));
  }
  if (*objects == 0 && *application == 0 && *version == 0) return Content::kNothing;
  if (*application != kApplicationId) {
    return CannotUse(path, "is the database of another program; choose another path");
  }
  if (*version != kVersion) {
    return CannotUse(path, absl::StrCat("has schema version ", *version, ", this build supports ",
                                        kVersion, "; run the newer version that wrote it"));
  }
  return Content::kKeys;
}

// SQLite does not wait when two processes make one file at the same time: the refused one tries
// again, until `give_up`.
bool MayTryAgain(int result, std::chrono::steady_clock::time_point give_up) {
  const bool busy = (result & 0xff) == SQLITE_BUSY;
  if (!busy || std::chrono::steady_clock::now() >= give_up) return false;
  sqlite3_sleep(kPauseMillis);
  return true;
}

// Before the file is changed in any way: it may be another program's.
absl::Status CheckContent(sqlite3* database, const std::string& path, absl::Duration busy_timeout) {
  SetBusyTimeout(database, busy_timeout);
  const auto give_up = After(std::chrono::steady_clock::now(), busy_timeout);
  for (;;) {
    absl::Status content;
    int result = SQLITE_OK;
    {
      const Transaction transaction(database, Transaction::Kind::kReads);
      content = ReadContent(database, path).status();
      // Before the transaction's end replaces it.
      result = sqlite3_errcode(database);
    }
    if (content.ok() || !MayTryAgain(result, give_up)) return content;
  }
}

// Creates the table in an empty file.
absl::Status PrepareFile(sqlite3* database, const std::string& path) {
  Transaction transaction(database, Transaction::Kind::kWrites);
  if (transaction.result() != SQLITE_OK) {
    return CannotUse(path, absl::StrCat("cannot be written (", sqlite3_errmsg(database), ")"));
  }
  // Again: another process may have been faster.
  const auto content = ReadContent(database, path);
  if (!content.ok()) return content.status();
  if (*content == Content::kKeys) return absl::OkStatus();
  if (Execute(database, kSchema) == SQLITE_OK && transaction.Commit() == SQLITE_OK) {
    return absl::OkStatus();
  }
  return CannotUse(path, absl::StrCat("cannot be written (", sqlite3_errmsg(database), ")"));
}

// WAL, so that reading a known key never waits; FULL, so that a commit is on
// disk before it is returned.
absl::Status Configure(sqlite3* database, const std::string& path, absl::Duration busy_timeout) {
  const auto give_up = After(std::chrono::steady_clock::now(), busy_timeout);
  for (;;) {
    Statement mode(database, "PRAGMA journal_mode = WAL");
    if (mode.Step() && mode.Text(0) == "wal") break;
    if (!MayTryAgain(mode.result(), give_up)) {
      return CannotUse(
          path,
          absl::StrCat("cannot use a write-ahead log (", sqlite3_errstr(mode.result()),
                       "); use a separate file, writable for this user, on a local file system"));
    }
  }
  if (Execute(database, "PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF") != SQLITE_OK) {
    return CannotUse(path, "cannot be configured");
  }
  return absl::OkStatus();
}

// So that no key is returned while a crash of the machine can remove it.
absl::Status SyncRecoveredLog(sqlite3* database, const std::string& path) {
  const int result = internal::SyncSqliteLog(database);
  if (result == SQLITE_OK) return absl::OkStatus();
  return CannotUse(path, absl::StrCat("cannot be synced (", sqlite3_errstr(result), ")"));
}

struct CloseDatabase {
  void operator()(sqlite3* opened) const { sqlite3_close_v2(opened); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

absl::StatusOr<Database> OpenDatabase(const std::string& path) {
  sqlite3* opened = nullptr;
  // No mutex of SQLite: it is used under one of the store's.
  const int result =
      sqlite3_open_v2(path.c_str(), &opened,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  // Even a failed open leaves a handle to close.
  Database database(opened);
  if (result != SQLITE_OK) {
    return CannotUse(path, absl::StrCat("cannot be opened (", sqlite3_errstr(result),
                                        "); its directory must exist and be writable"));
  }
  return database;
}

// Empty if `work` is not known.
absl::StatusOr<std::string> Find(sqlite3* database, std::string_view work) {
  Statement find(database, "SELECT key FROM keys WHERE work = ?1");
  const bool found = find.Bind(1, work).Step();
  if (!find.ok()) return Unavailable(find.result());
  return found ? find.Text(0) : std::string();
}

}  // namespace

struct SqliteKeyStore::File {
  explicit File(absl::Duration busy) : busy_timeout(busy) {}

  // OK unless what is read or written here is not found under the files' names any more.
  absl::Status CheckPlace() const;

  const absl::Duration busy_timeout;
  // Set once it is open.
  SqliteFilePlace place;
  // A writer waits for other processes under its mutex; readers do not wait for it.
  Mutex writing;
  Database writer ABSL_GUARDED_BY(writing);
  Mutex reading;
  Database reader ABSL_GUARDED_BY(reading);
};

absl::Status SqliteKeyStore::File::CheckPlace() const {
  if (!place.FindMoved()) return absl::OkStatus();
  return MakeError(Reason::kStoreUnavailable,
                   "a file of the key store was moved, removed or replaced while it was used: "
                   "nothing was sent. Put it back, or start again with the right one");
}

SqliteKeyStore::SqliteKeyStore(std::unique_ptr<File> file) : file_(std::move(file)) {}

SqliteKeyStore::~SqliteKeyStore() = default;

absl::StatusOr<std::unique_ptr<SqliteKeyStore>> SqliteKeyStore::Open(
    const std::string& path, const SqliteKeyStoreOptions& options) {
  if (IsMountedAlone(path)) {
    return CannotUse(path,
                     "is mounted alone: its log would be outside of the mount, and the newest keys "
                     "would be lost with this container. Mount its directory instead");
  }
  // A reader of a key can request the reply of its operation.
  CreatePrivateFile(path);
  auto file = std::make_unique<File>(options.busy_timeout);
  absl::StatusOr<Database> writer = OpenDatabase(path);
  if (!writer.ok()) return writer.status();
  absl::Status ready = CheckContent(writer->get(), path, options.busy_timeout);
  if (!ready.ok()) return ready;
  // The absolute name that SQLite gives its log: a symbolic link in `path` may change meanwhile.
  // None of a temporary database, which is refused below.
  const std::string real_path = sqlite3_db_filename(writer->get(), "main");
  for (const char* const suffix : {"", "-wal", "-shm"}) {
    if (!real_path.empty()) RestrictFile(absl::StrCat(real_path, suffix));
  }
  ready = Configure(writer->get(), path, options.busy_timeout);
  if (ready.ok()) ready = PrepareFile(writer->get(), path);
  if (ready.ok()) ready = SyncRecoveredLog(writer->get(), path);
  if (!ready.ok()) return ready;
  file->place = SqliteFilePlace::Of(real_path);
  absl::StatusOr<Database> reader = OpenDatabase(real_path);
  if (!reader.ok()) return reader.status();
  if (Execute(reader->get(), "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF") != SQLITE_OK) {
    return CannotUse(path, "cannot be configured");
  }
  // Otherwise the reader may have another file.
  if (file->place.FindMoved()) return CannotUse(path, "was replaced while it was opened");
  {
    MutexLock lock(file->writing);
    file->writer = *std::move(writer);
  }
  {
    MutexLock lock(file->reading);
    file->reader = *std::move(reader);
  }
  return absl::WrapUnique(new SqliteKeyStore(std::move(file)));
}

absl::StatusOr<std::string> SqliteKeyStore::KeyFor(std::string_view work) {
  if (absl::Status fault = CheckWork(work); !fault.ok()) return fault;
  // Before the mutex: threads that wait for one process do not wait one after the other.
  const auto give_up = After(std::chrono::steady_clock::now(), file_->busy_timeout);
  {
    MutexLock lock(file_->reading);
    // A known key too: the next process would not find it.
    if (absl::Status moved = file_->CheckPlace(); !moved.ok()) return moved;
    sqlite3* const database = file_->reader.get();
    SetBusyTimeout(database, TimeUntil(give_up, std::chrono::steady_clock::now()));
    // SQLite shows a commit to others only after it was synced, and Open() has synced what a
    // recovery shows: a row found is durable, from any writer.
    if (auto known = Find(database, work); !known.ok() || !known->empty()) return known;
  }
  MutexLock lock(file_->writing);
  if (absl::Status moved = file_->CheckPlace(); !moved.ok()) return moved;
  sqlite3* const database = file_->writer.get();
  SetBusyTimeout(database, TimeUntil(give_up, std::chrono::steady_clock::now()));
  Transaction transaction(database, Transaction::Kind::kWrites);
  if (transaction.result() != SQLITE_OK) return Unavailable(transaction.result());
  // Another process may have been faster.
  if (auto known = Find(database, work); !known.ok() || !known->empty()) return known;
  const absl::Time now = absl::Now();
  std::string key = Uuid::TimeOrdered(now).ToString();
  Statement insert(database, "INSERT INTO keys (work, key, created_at) VALUES (?1, ?2, ?3)");
  insert.Bind(1, work).Bind(2, key).Bind(3, absl::ToUnixMicros(now)).Step();
  if (!insert.ok()) return Unavailable(insert.result());
  if (const int committed = transaction.Commit(); committed != SQLITE_OK) {
    return Unavailable(committed);
  }
  // Moved before the commit: the key is not in the file that the next process opens.
  if (absl::Status moved = file_->CheckPlace(); !moved.ok()) return moved;
  return key;
}

absl::Status SqliteKeyStore::Forget(std::string_view work, std::string_view key) {
  if (absl::Status fault = CheckWork(work); !fault.ok()) return fault;
  const auto give_up = After(std::chrono::steady_clock::now(), file_->busy_timeout);
  MutexLock lock(file_->writing);
  if (absl::Status moved = file_->CheckPlace(); !moved.ok()) return moved;
  SetBusyTimeout(file_->writer.get(), TimeUntil(give_up, std::chrono::steady_clock::now()));
  Statement remove(file_->writer.get(), "DELETE FROM keys WHERE work = ?1 AND key = ?2");
  remove.Bind(1, work).Bind(2, key).Step();
  return remove.ok() ? absl::OkStatus() : Unavailable(remove.result());
}

absl::StatusOr<std::vector<KeyStore::Entry>> SqliteKeyStore::Unfinished() {
  const auto give_up = After(std::chrono::steady_clock::now(), file_->busy_timeout);
  MutexLock lock(file_->reading);
  if (absl::Status moved = file_->CheckPlace(); !moved.ok()) return moved;
  sqlite3* const database = file_->reader.get();
  SetBusyTimeout(database, TimeUntil(give_up, std::chrono::steady_clock::now()));
  Statement list(database, "SELECT work, key, created_at FROM keys ORDER BY created_at, work");
  std::vector<Entry> entries;
  while (list.Step()) {
    entries.push_back({list.Text(0), list.Text(1), absl::FromUnixMicros(list.Integer(2))});
  }
  if (!list.ok()) return Unavailable(list.result());
  return entries;
}

}  // namespace idempotency
