#ifndef IDEMPOTENCY_CORE_SQLITE_LOG_H_
#define IDEMPOTENCY_CORE_SQLITE_LOG_H_

#include <sqlite3.h>

namespace idempotency::internal {

// Syncs the write-ahead log of a connection that has read from it, and the log's entry in its
// directory. Not by a checkpoint, which writes to the database: a full disk would fail it. Returns
// the SQLite result code, 0 on success.
//
// A process that was killed in a commit may have written it to the log without a sync; the first
// connection after it recovers the log, and shows the commit. After this, no crash of the machine
// removes it.
inline int SyncSqliteLog(sqlite3* database) {
  sqlite3_file* log = nullptr;
  const int found = sqlite3_file_control(database, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (found != SQLITE_OK) return found;
  // Not opened: nothing was read.
  if (log == nullptr || log->pMethods == nullptr) return SQLITE_MISUSE;
  return log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_SQLITE_LOG_H_
