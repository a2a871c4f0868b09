#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_SETTLE_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_SETTLE_H_

#include "absl/status/status.h"

#include "server/store/postgres/records/operation_batches.h"
#include "server/store/postgres/single_row/records.h"

namespace idempotency::internal {

// One round each of Complete, Release, Extend and Get in PostgresStatementMode::kSingleRow: one
// conditional statement for each record, which hits nearly always; the others are read and decided
// by the table.

absl::Status SingleRowCompleteRound(SingleRowRecords& records, CompleteBatch& batch,
                                    const CompleteBatch::Indices& pending);

absl::Status SingleRowReleaseRound(SingleRowRecords& records, ReleaseBatch& batch,
                                   const ReleaseBatch::Indices& pending);

// A lease with a checkpoint is two statements in a transaction.
absl::Status SingleRowExtendRound(SingleRowRecords& records, ExtendBatch& batch,
                                  const ExtendBatch::Indices& pending);

absl::Status SingleRowGetRound(SingleRowRecords& records, GetBatch& batch,
                               const GetBatch::Indices& pending);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_SETTLE_H_
