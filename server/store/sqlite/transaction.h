#ifndef IDEMPOTENCY_SERVER_STORE_SQLITE_TRANSACTION_H_
#define IDEMPOTENCY_SERVER_STORE_SQLITE_TRANSACTION_H_

#include "absl/status/status.h"

#include "server/store/sqlite/connection.h"

namespace idempotency::internal {

// BEGIN IMMEDIATE … COMMIT; rolls back unless it was committed. The connection
// outlives it.
class SqliteTransaction {
 public:
  explicit SqliteTransaction(SqliteConnection& connection) : connection_(connection) {}
  ~SqliteTransaction() { RollBack(); }
  SqliteTransaction(const SqliteTransaction&) = delete;
  SqliteTransaction& operator=(const SqliteTransaction&) = delete;

  // Takes the write lock: rows read from now on do not change.
  absl::Status Begin();
  // Durable once OK. After a failure nothing of the transaction stays, unless
  // only the confirmation failed: the caller must treat it as unknown.
  absl::Status Commit();

 private:
  void RollBack();

  SqliteConnection& connection_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_SQLITE_TRANSACTION_H_
