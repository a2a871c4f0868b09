#include "examples/checkout/book.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace checkout {
namespace {

constexpr char kPrepare[] = R"sql(
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS runs (
  id        INTEGER PRIMARY KEY,
  record_id TEXT NOT NULL,
  attempt   TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS effects (
  record_id TEXT PRIMARY KEY,
  what      TEXT NOT NULL
) STRICT;
)sql";

constexpr int kBusyTimeoutMs = 5000;

struct Finalizer {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalizer>;

absl::Status Unusable() { return absl::UnavailableError("the book cannot be used right now"); }

std::string Text(sqlite3_stmt* statement, int column) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
  return text == nullptr ? "" : text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Book>> Book::Open(const std::string& path) {
  sqlite3* raw = nullptr;
  const int rc = sqlite3_open(path.c_str(), &raw);
  Handle db(raw);
  if (rc != SQLITE_OK) return Unusable();
  sqlite3_busy_timeout(db.get(), kBusyTimeoutMs);
  if (sqlite3_exec(db.get(), kPrepare, nullptr, nullptr, nullptr) != SQLITE_OK) return Unusable();
  return std::unique_ptr<Book>(new Book(std::move(db)));
}

absl::Status Book::Begin(const std::string& record_id, std::uint32_t attempt) {
  return Run("INSERT INTO runs (record_id, attempt) VALUES (?1, ?2)",
             {record_id, absl::StrCat(attempt)})
      .status();
}

absl::Status Book::Enter(const std::string& record_id, const std::string& what) {
  return Run("INSERT INTO effects VALUES (?1, ?2) ON CONFLICT (record_id) DO NOTHING",
             {record_id, what})
      .status();
}

absl::StatusOr<bool> Book::Has(const std::string& record_id) {
  const auto found = Run("SELECT record_id, what FROM effects WHERE record_id = ?1", {record_id});
  if (!found.ok()) return found.status();
  return !found->empty();
}

absl::StatusOr<std::vector<Book::Entry>> Book::Runs() {
  return Run("SELECT record_id, attempt FROM runs ORDER BY id");
}

absl::StatusOr<std::vector<Book::Entry>> Book::Effects() {
  return Run("SELECT record_id, what FROM effects ORDER BY rowid");
}

absl::StatusOr<std::vector<Book::Entry>> Book::Run(const char* sql,
                                                   std::initializer_list<std::string> parameters) {
  const std::lock_guard<std::mutex> lock(mutex_);
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v2(db_.get(), sql, -1, &raw, nullptr) != SQLITE_OK) return Unusable();
  const Statement statement(raw);
  int bound = 0;
  for (const std::string& parameter : parameters) {
    if (sqlite3_bind_text(raw, ++bound, parameter.data(), static_cast<int>(parameter.size()),
                          SQLITE_TRANSIENT) != SQLITE_OK) {
      return Unusable();
    }
  }
  std::vector<Entry> entries;
  int rc = sqlite3_step(raw);
  for (; rc == SQLITE_ROW; rc = sqlite3_step(raw)) entries.push_back({Text(raw, 0), Text(raw, 1)});
  if (rc != SQLITE_DONE) return Unusable();
  return entries;
}

}  // namespace checkout
