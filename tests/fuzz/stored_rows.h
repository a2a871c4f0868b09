#ifndef IDEMPOTENCY_TESTS_FUZZ_STORED_ROWS_H_
#define IDEMPOTENCY_TESTS_FUZZ_STORED_ROWS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/testing/manual_clock.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/support/temp_folder.h"

struct sqlite3;

namespace idempotency::internal::fuzz {

// A SQLite store with three records, and a second writer of its file, which writes values that the
// store never would: any value in any column. Not thread-safe.
class StoredRows {
 public:
  // The verdict of each for a retry of the same request.
  enum class Row {
    kPaid,       // a replay of "paid"
    kForgotten,  // expired, under a tombstone
    kUnknown,    // a lease ran out, and it requires recovery
  };
  static constexpr int kRows = 3;
  static constexpr int kColumns = 23;

  StoredRows();
  ~StoredRows();
  StoredRows(const StoredRows&) = delete;
  StoredRows& operator=(const StoredRows&) = delete;

  Store& store() { return *store_; }
  // The key's name, for server/store/testing/operations.h.
  static std::string_view NameOf(Row row);
  static std::string_view NameOf(int column);
  const Uuid& TokenOf(Row row) const { return tokens_[static_cast<int>(row)]; }

  // Restores the original rows, and removes all others.
  void Restore();
  void SetNull(Row row, int column);
  void SetInteger(Row row, int column, std::int64_t value);
  void SetReal(Row row, int column, double value);
  void SetText(Row row, int column, std::string_view value);
  void SetBlob(Row row, int column, std::string_view value);
  // Changes some bits of a text or a blob.
  void Flip(Row row, int column, std::string_view bits);

 private:
  class Update;

  void Fill();
  // Removes the types from the schema, so that any column accepts any value.
  void Loosen();
  void Execute(const char* sql);

  testing::TempFolder folder_;
  ManualClock clock_;
  Uuid tokens_[kRows];
  std::unique_ptr<SqliteStore> store_;
  sqlite3* other_ = nullptr;
};

}  // namespace idempotency::internal::fuzz

#endif  // IDEMPOTENCY_TESTS_FUZZ_STORED_ROWS_H_
