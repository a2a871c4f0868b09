// A row of the records as a StoredRecord.
#ifndef IDEMPOTENCY_SERVER_STORE_SQLITE_RECORDS_ROW_H_
#define IDEMPOTENCY_SERVER_STORE_SQLITE_RECORDS_ROW_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/decision.h"
#include "server/store/sqlite/records.h"
#include "server/store/sqlite/statement.h"

namespace idempotency::internal {

// What a SELECT FROM records AS r begins with, in the order in which ReadSqliteRow() numbers the
// columns; the reply is kSqliteReplyColumn, and the checkpoint the one behind it.
inline constexpr int kSqliteReplyColumn = 21;
inline constexpr char kSqliteRowColumns[] =
    "namespace, scope, operation, key, state, attempt, token, request_token, recovering,"
    " on_lease_expiry, created_at, lease_expires_at, expires_at, completed_at, fingerprints,"
    " release_reason, annotations, reply_digest, reply_until, tombstone_until, status_digest";
inline constexpr char kSqliteReplyAndCheckpoint[] =
    ", reply, (SELECT checkpoint FROM checkpoints AS c WHERE c.id = r.id)";
// In place of the reply: not NULL if there is one. The length is in the row's header, which a
// comparison with NULL would not do with: that reads the reply.
inline constexpr char kSqliteHasReply[] = ", length(reply)";

// The record of `id`, whose row this is. RECORD_DAMAGED if the row has not the shape that this
// program writes.
absl::StatusOr<std::optional<StoredRecord>> ReadSqliteRow(const SqliteStatement& row,
                                                          const RecordId& id,
                                                          SqliteRecords::Detail detail);
absl::Status DamagedSqliteRow();
// As ChangeOne(), for the maintenance of a record: DATA_LOSS / RECORD_DAMAGED where a page of it is
// damaged.
absl::Status ChangeOneToMaintain(SqliteStatement& write);

// Columns of other statements. nullopt, or false, if a column has not the shape that this program
// writes.
std::optional<std::uint32_t> SqliteAttemptFrom(std::optional<std::int64_t> column);
// A column that may be empty: an invalid time must not count as an empty one.
bool ReadSqliteTime(const SqliteStatement& row, int column, std::optional<absl::Time>& time);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_SQLITE_RECORDS_ROW_H_
