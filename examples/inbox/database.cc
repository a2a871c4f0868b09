#include "examples/inbox/database.h"

namespace inbox {
namespace {

constexpr int kBusyTimeoutMs = 5000;

}  // namespace

absl::StatusOr<Database> Database::Open(const std::string& path, const char* schema) {
  Database database;
  sqlite3* raw = nullptr;
  const int rc = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                                 /*zVfs=*/nullptr);
  database.handle_.reset(raw);
  if (rc == SQLITE_OK) {
    sqlite3_busy_timeout(raw, kBusyTimeoutMs);
    if (database.Run("PRAGMA journal_mode = WAL") && database.Run("PRAGMA synchronous = FULL") &&
        database.Run(schema)) {
      return database;
    }
  }
  return absl::UnavailableError("the file " + path + " cannot be used");
}

bool Database::Run(const char* sql) const {
  return sqlite3_exec(handle(), sql, nullptr, nullptr, nullptr) == SQLITE_OK;
}

Statement::Statement(const Database& database, const char* sql) {
  rc_ = sqlite3_prepare_v2(database.handle(), sql, -1, &handle_, nullptr);
}

Statement& Statement::Bind(std::int64_t value) {
  if (!failed()) rc_ = sqlite3_bind_int64(handle_, ++bound_, value);
  return *this;
}

Statement& Statement::Bind(std::string_view text) {
  if (!failed()) {
    rc_ = sqlite3_bind_text(handle_, ++bound_, text.data(), static_cast<int>(text.size()),
                            SQLITE_TRANSIENT);
  }
  return *this;
}

bool Statement::Next() {
  if (!failed()) rc_ = sqlite3_step(handle_);
  return rc_ == SQLITE_ROW;
}

bool Statement::Finish() {
  while (Next()) {
  }
  return !failed();
}

std::string Statement::Text(int column) const {
  const void* bytes = sqlite3_column_blob(handle_, column);
  return bytes == nullptr
             ? std::string()
             : std::string(static_cast<const char*>(bytes), sqlite3_column_bytes(handle_, column));
}

}  // namespace inbox
