#ifndef IDEMPOTENCY_POSTGRES_DIRECT_CONNECTION_H_
#define IDEMPOTENCY_POSTGRES_DIRECT_CONNECTION_H_

#include "postgres/libpqxx.h"

namespace idempotency::internal {

// The probe for a pooler between this process and the server (docs/adr/0038).
inline constexpr char kServerProcessQuery[] = "SELECT pg_backend_pid()";

// Whether the other end of the connection is the server: `process` is the answer to
// kServerProcessQuery. A pooler answers cancellations itself, so it sends a key of its own.
inline bool IsDirect(const PostgresConnectionBase& connection, int process) {
  return connection.backendpid() == process;
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_POSTGRES_DIRECT_CONNECTION_H_
