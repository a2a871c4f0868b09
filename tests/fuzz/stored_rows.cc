#include "tests/fuzz/stored_rows.h"

#include <sqlite3.h>

#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "server/store/testing/operations.h"
#include "tests/fuzz/property.h"

namespace idempotency::internal::fuzz {
namespace {

constexpr std::string_view kRowNames[StoredRows::kRows] = {"paid", "forgotten", "unknown"};
// The last one is in a table of its own.
constexpr std::string_view kColumnNames[StoredRows::kColumns] = {
    "namespace",       "scope",           "operation",    "key",
    "state",           "attempt",         "token",        "request_token",
    "recovering",      "on_lease_expiry", "created_at",   "lease_expires_at",
    "expires_at",      "completed_at",    "fingerprints", "release_reason",
    "annotations",     "reply_digest",    "reply",        "reply_until",
    "tombstone_until", "status_digest",   "checkpoint"};
constexpr int kCheckpoint = StoredRows::kColumns - 1;

// "IS NOT NULL" belongs to a CHECK, and stays.
constexpr char kLoosen[] =
    "PRAGMA writable_schema = ON;"
    "UPDATE sqlite_schema SET sql = replace(replace(replace(replace(sql,"
    " 'IS NOT NULL', 'IS SET'), ' NOT NULL', ''), 'IS SET', 'IS NOT NULL'), ') STRICT', ')')"
    " WHERE type = 'table';"
    "PRAGMA writable_schema = RESET";
constexpr char kPrepare[] =
    "PRAGMA ignore_check_constraints = ON;"
    "PRAGMA synchronous = OFF;"
    "PRAGMA temp_store = MEMORY;"
    "CREATE TEMP TABLE saved_records AS SELECT * FROM records;"
    "CREATE TEMP TABLE saved_checkpoints AS SELECT * FROM checkpoints";
constexpr char kRestore[] =
    "BEGIN IMMEDIATE;"
    "DELETE FROM checkpoints;"
    "DELETE FROM records;"
    "INSERT INTO records SELECT * FROM saved_records;"
    "INSERT INTO checkpoints SELECT * FROM saved_checkpoints;"
    "COMMIT";

SqliteOptions OnClock(const Clock& clock) {
  SqliteOptions options;
  options.clock = &clock;
  return options;
}

}  // namespace

// One change of one column.
class StoredRows::Update {
 public:
  Update(StoredRows& rows, Row row, int column) : id_(IdNamed(StoredRows::NameOf(row))) {
    const std::string_view table = column == kCheckpoint ? "checkpoints" : "records";
    const std::string sql = absl::StrCat("UPDATE ", AbslView(table), " SET ",
                                         AbslView(kColumnNames[column]), " = ?1 WHERE id = ?2");
    Require(sqlite3_prepare_v2(rows.other_, sql.c_str(), -1, &statement_, nullptr) == SQLITE_OK,
            "the column is there");
    sqlite3_bind_blob(statement_, 2, id_.bytes().data(), 16, SQLITE_STATIC);
  }
  ~Update() {
    Require(sqlite3_step(statement_) == SQLITE_DONE, "any value can be written");
    sqlite3_finalize(statement_);
  }
  sqlite3_stmt* statement() { return statement_; }

 private:
  const RecordId id_;
  sqlite3_stmt* statement_ = nullptr;
};

StoredRows::StoredRows() {
  Fill();
  store_.reset();
  Require(sqlite3_open(folder_.File("records.db").c_str(), &other_) == SQLITE_OK, "a second hand");
  Loosen();
  auto store = SqliteStore::Open(folder_.File("records.db"), OnClock(clock_));
  Require(store.ok(), "the store opens the file again");
  store_ = *std::move(store);
  Execute(kPrepare);
}

StoredRows::~StoredRows() { sqlite3_close(other_); }

std::string_view StoredRows::NameOf(Row row) { return kRowNames[static_cast<int>(row)]; }
std::string_view StoredRows::NameOf(int column) { return kColumnNames[column]; }

void StoredRows::Fill() {
  auto store = SqliteStore::Open(folder_.File("records.db"), OnClock(clock_));
  Require(store.ok(), "the store opens");
  store_ = *std::move(store);
  std::vector<ReserveOp> ops;
  for (const std::string_view name : kRowNames) ops.push_back(ReserveNamed(name));
  ops[0].tombstone = absl::Hours(24);
  ops[0].reply_retention = absl::Hours(1);
  ops[0].labels = {{"build", "41"}};
  ops[1].retention = absl::Seconds(1);
  ops[1].lease = absl::Seconds(1);
  ops[1].tombstone = absl::Hours(24);
  ops[2].lease = absl::Seconds(1);
  ops[2].on_lease_expiry = LeaseExpiry::kRequireRecovery;
  const auto grants = store_->Reserve(ops);
  for (int i = 0; i < kRows; ++i) {
    Require(As<Reserved>(grants[i]) != nullptr, "new keys are granted");
    tokens_[i] = As<Reserved>(grants[i])->token;
  }
  const std::vector<CompleteOp> completions = {CompleteNamed("paid", tokens_[0], "paid"),
                                               CompleteNamed("forgotten", tokens_[1], "gone")};
  for (const auto& answer : store_->Complete(completions)) Require(answer.ok(), "completed");
  ExtendOp checkpoint = ExtendNamed("unknown", tokens_[2]);
  checkpoint.lease = absl::Seconds(1);
  checkpoint.checkpoint = "step 3";
  Require(store_->Extend({&checkpoint, 1})[0].ok(), "extended");
  clock_.Advance(absl::Seconds(2));
}

void StoredRows::Loosen() { Execute(kLoosen); }

void StoredRows::Execute(const char* sql) {
  Require(sqlite3_exec(other_, sql, nullptr, nullptr, nullptr) == SQLITE_OK,
          sqlite3_errmsg(other_));
}

void StoredRows::Restore() { Execute(kRestore); }

void StoredRows::SetNull(Row row, int column) {
  Update update(*this, row, column);
  sqlite3_bind_null(update.statement(), 1);
}
void StoredRows::SetInteger(Row row, int column, std::int64_t value) {
  Update update(*this, row, column);
  sqlite3_bind_int64(update.statement(), 1, value);
}
void StoredRows::SetReal(Row row, int column, double value) {
  Update update(*this, row, column);
  sqlite3_bind_double(update.statement(), 1, value);
}
void StoredRows::SetText(Row row, int column, std::string_view value) {
  Update update(*this, row, column);
  sqlite3_bind_text(update.statement(), 1, value.empty() ? "" : value.data(),
                    static_cast<int>(value.size()), SQLITE_TRANSIENT);
}
void StoredRows::SetBlob(Row row, int column, std::string_view value) {
  Update update(*this, row, column);
  sqlite3_bind_blob(update.statement(), 1, value.empty() ? "" : value.data(),
                    static_cast<int>(value.size()), SQLITE_TRANSIENT);
}

void StoredRows::Flip(Row row, int column, std::string_view bits) {
  const RecordId id = IdNamed(NameOf(row));
  const std::string_view table = column == kCheckpoint ? "checkpoints" : "records";
  const std::string sql = absl::StrCat("SELECT ", AbslView(kColumnNames[column]), " FROM ",
                                       AbslView(table), " WHERE id = ?1");
  sqlite3_stmt* read = nullptr;
  Require(sqlite3_prepare_v2(other_, sql.c_str(), -1, &read, nullptr) == SQLITE_OK,
          "the column is there");
  sqlite3_bind_blob(read, 1, id.bytes().data(), 16, SQLITE_STATIC);
  std::string value;
  int type = SQLITE_NULL;
  if (sqlite3_step(read) == SQLITE_ROW) {
    type = sqlite3_column_type(read, 0);
    const void* const bytes = sqlite3_column_blob(read, 0);
    if (bytes != nullptr) {
      value.assign(static_cast<const char*>(bytes), sqlite3_column_bytes(read, 0));
    }
  }
  sqlite3_finalize(read);
  for (std::size_t i = 0; i < value.size() && i < bits.size(); ++i) {
    value[i] = static_cast<char>(value[i] ^ bits[i]);
  }
  if (type == SQLITE_TEXT) SetText(row, column, value);
  if (type == SQLITE_BLOB) SetBlob(row, column, value);
}

}  // namespace idempotency::internal::fuzz
