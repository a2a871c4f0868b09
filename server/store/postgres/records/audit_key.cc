#include "server/store/postgres/records/audit_key.h"

#include "server/store/postgres/records/batch.h"

namespace idempotency::internal {

absl::StatusOr<std::string> ReadAuditKey(PostgresConnection& connection) {
  const auto row =
      connection.Execute({"read_audit_key", "SELECT k.key FROM audit_key k WHERE k.id"}, {});
  if (!row.ok()) return ToCallerStatus(row.status());
  if (row->rows() == 1) return row->Bytea(0, 0);
  return ToCallerStatus(absl::UnavailableError("there is no audit key"));
}

}  // namespace idempotency::internal
