#include "server/store/sqlite/statement.h"

#include <sqlite3.h>

#include <algorithm>

#include "server/store/sqlite/error.h"

namespace idempotency::internal {

void SqliteStatement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

void SqliteStatement::Note(int result) {
  if (failure_ == SQLITE_OK) failure_ = result;
}

void SqliteStatement::Reset() {
  // Its result repeats that of the last Step, which was checked.
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
  failure_ = SQLITE_OK;
}

void SqliteStatement::Bind(int index, std::int64_t value) {
  Note(sqlite3_bind_int64(statement_.get(), index, value));
}

void SqliteStatement::Bind(int index, absl::Time value) { Bind(index, absl::ToUnixMicros(value)); }

void SqliteStatement::Bind(int index, const Uuid& value) {
  const Uuid::Bytes& bytes = value.bytes();
  Note(sqlite3_bind_blob64(statement_.get(), index, bytes.data(), bytes.size(), SQLITE_STATIC));
}

void SqliteStatement::Bind(int index, const std::optional<Uuid>& value) {
  if (value) {
    Bind(index, *value);
  } else {
    BindNull(index);
  }
}

void SqliteStatement::BindText(int index, std::string_view value) {
  // A null pointer would bind NULL.
  const char* const data = value.empty() ? "" : value.data();
  Note(
      sqlite3_bind_text64(statement_.get(), index, data, value.size(), SQLITE_STATIC, SQLITE_UTF8));
}

void SqliteStatement::BindBlob(int index, std::string_view value) {
  const char* const data = value.empty() ? "" : value.data();
  Note(sqlite3_bind_blob64(statement_.get(), index, data, value.size(), SQLITE_STATIC));
}

void SqliteStatement::BindNull(int index) { Note(sqlite3_bind_null(statement_.get(), index)); }

absl::StatusOr<bool> SqliteStatement::Step() {
  if (failure_ != SQLITE_OK) return SqliteUnavailable(failure_);
  const int result = sqlite3_step(statement_.get());
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  Note(sqlite3_extended_errcode(sqlite3_db_handle(statement_.get())));
  return SqliteUnavailable(failure_);
}

bool SqliteStatement::met_damage() const {
  constexpr int kPrimaryCode = 0xFF;
  return (failure_ & kPrimaryCode) == SQLITE_CORRUPT;
}

absl::Status SqliteStatement::ChangeOne() {
  const absl::StatusOr<bool> row = Step();
  if (!row.ok()) return row.status();
  const int changed = sqlite3_changes(sqlite3_db_handle(statement_.get()));
  return changed == 1 ? absl::OkStatus() : SqliteUnavailable(SQLITE_MISUSE);
}

bool SqliteStatement::IsNull(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

std::optional<std::int64_t> SqliteStatement::Integer(int column) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_INTEGER) return std::nullopt;
  return sqlite3_column_int64(statement_.get(), column);
}

std::optional<absl::Time> SqliteStatement::Time(int column) const {
  const auto micros = Integer(column);
  if (!micros) return std::nullopt;
  return absl::FromUnixMicros(*micros);
}

std::optional<Uuid> SqliteStatement::UuidBlob(int column) const {
  const auto blob = Blob(column);
  Uuid::Bytes bytes;
  if (!blob || blob->size() != bytes.size()) return std::nullopt;
  std::copy(blob->begin(), blob->end(), bytes.begin());
  return Uuid(bytes);
}

std::optional<std::string_view> SqliteStatement::Text(int column) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_TEXT) return std::nullopt;
  const auto* const text = sqlite3_column_text(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return std::string_view(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
}

std::optional<std::string_view> SqliteStatement::Blob(int column) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_BLOB) return std::nullopt;
  const void* const blob = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  if (size == 0) return std::string_view();
  return std::string_view(static_cast<const char*>(blob), static_cast<std::size_t>(size));
}

}  // namespace idempotency::internal
