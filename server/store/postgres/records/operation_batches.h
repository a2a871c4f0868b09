#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_OPERATION_BATCHES_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_OPERATION_BATCHES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/store/postgres/records/batch.h"
#include "server/store/record_operations.h"

namespace idempotency::internal {

// A batch of each kind of operation that works on records.
using ReserveBatch = PostgresBatch<ReserveOp, absl::StatusOr<Verdict>>;
using CompleteBatch = PostgresBatch<CompleteOp, absl::StatusOr<Completion>>;
using ReleaseBatch = PostgresBatch<ReleaseOp, absl::Status>;
using ExtendBatch = PostgresBatch<ExtendOp, absl::StatusOr<Extension>>;
using GetBatch = PostgresBatch<GetOp, absl::StatusOr<Record>>;

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_OPERATION_BATCHES_H_
