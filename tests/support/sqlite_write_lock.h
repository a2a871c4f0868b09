#ifndef IDEMPOTENCY_TESTS_SUPPORT_SQLITE_WRITE_LOCK_H_
#define IDEMPOTENCY_TESTS_SUPPORT_SQLITE_WRITE_LOCK_H_

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <string>

namespace idempotency::internal::testing {

// The lock of another program that writes to an SQLite file, and changes nothing. Waits up to 10 s
// for it; held until the object's end.
class SqliteWriteLock {
 public:
  explicit SqliteWriteLock(const std::string& path) {
    EXPECT_EQ(sqlite3_open(path.c_str(), &connection_), SQLITE_OK);
    sqlite3_busy_timeout(connection_, 10'000);
    EXPECT_EQ(sqlite3_exec(connection_, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  }
  ~SqliteWriteLock() { sqlite3_close(connection_); }
  SqliteWriteLock(const SqliteWriteLock&) = delete;
  SqliteWriteLock& operator=(const SqliteWriteLock&) = delete;

 private:
  sqlite3* connection_ = nullptr;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_SQLITE_WRITE_LOCK_H_
