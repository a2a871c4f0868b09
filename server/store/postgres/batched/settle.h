#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_SETTLE_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_SETTLE_H_

#include "absl/status/status.h"

#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/connection/parameters.h"
#include "server/store/postgres/connection/result.h"
#include "server/store/postgres/records/operation_batches.h"
#include "server/store/postgres/statements/batched.h"

namespace idempotency::internal {

// One round each of Complete, Release and Extend: one conditional statement, which
// hits nearly always; rows that it does not hit are read and decided by the
// table.

absl::Status CompleteRound(PostgresConnection& connection, const PostgresStatements& statements,
                           CompleteBatch& batch, const CompleteBatch::Indices& pending);

// Sends the first statement of such a round, without waiting. False if nothing was sent
// (PostgresConnection::Send).
bool SendComplete(PostgresConnection& connection, const PostgresStatements& statements,
                  const CompleteBatch& batch, const CompleteBatch::Indices& pending);

// Parts of it, for a statement that does more: its parameters, and the row of an
// answer, whose id, completed_at, expires_at and lease_until start at `column`.
PostgresParameters CompleteParameters(const CompleteBatch& batch,
                                      const CompleteBatch::Indices& indices);
void SettleCompleted(const PostgresResult& result, int row, int column, CompleteBatch& batch);

absl::Status ReleaseRound(PostgresConnection& connection, const PostgresStatements& statements,
                          ReleaseBatch& batch, const ReleaseBatch::Indices& pending);

absl::Status ExtendRound(PostgresConnection& connection, const PostgresStatements& statements,
                         ExtendBatch& batch, const ExtendBatch::Indices& pending);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_SETTLE_H_
