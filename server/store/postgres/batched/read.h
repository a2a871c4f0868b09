#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_READ_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_READ_H_

#include "absl/status/status.h"

#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/records/operation_batches.h"
#include "server/store/postgres/statements/batched.h"

namespace idempotency::internal {

// One round of Get: one statement reads the records of all that have no answer yet.
absl::Status GetRound(PostgresConnection& connection, const PostgresStatements& statements,
                      GetBatch& batch, const GetBatch::Indices& pending);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_READ_H_
