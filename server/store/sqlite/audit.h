#ifndef IDEMPOTENCY_SERVER_STORE_SQLITE_AUDIT_H_
#define IDEMPOTENCY_SERVER_STORE_SQLITE_AUDIT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/sha256.h"
#include "server/store/admin_operations.h"
#include "server/store/sqlite/connection.h"
#include "server/store/sqlite/statement.h"

namespace idempotency::internal {

// The audit log of one connection. Thread-compatible; must not outlive its connection. Every
// method can return STORE_UNAVAILABLE.
class SqliteAudit {
 public:
  static absl::StatusOr<SqliteAudit> Prepare(SqliteConnection& connection);

  // AuditHmac() of a record key, under the file's audit key.
  absl::StatusOr<Sha256Digest> HmacOf(const RecordKey& key);
  // Adds an entry; the log chooses its sequence. In the transaction of what it describes.
  absl::Status Append(const AuditEntry& entry);
  absl::StatusOr<AuditPage> Read(const AuditOp& op);

 private:
  SqliteAudit() = default;

  SqliteStatement read_key_;
  SqliteStatement append_;
  SqliteStatement read_;
  SqliteStatement read_newest_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_SQLITE_AUDIT_H_
