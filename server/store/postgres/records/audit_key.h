#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_AUDIT_KEY_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_AUDIT_KEY_H_

#include <string>

#include "absl/status/statusor.h"

#include "server/store/postgres/connection/connection.h"

namespace idempotency::internal {

// The key of the HMACs in the audit log (AuditHmac). The error is the caller's.
absl::StatusOr<std::string> ReadAuditKey(PostgresConnection& connection);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_AUDIT_KEY_H_
