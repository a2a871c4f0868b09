#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_REPLY_SLICES_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_REPLY_SLICES_H_

#include <cstddef>
#include <vector>

#include "server/store/postgres/records/operation_batches.h"

namespace idempotency::internal {

// `indices`, in their order, in slices whose replies together have at most `max_bytes`; a reply
// with more is a slice of its own.
std::vector<CompleteBatch::Indices> SliceByReplies(const CompleteBatch& batch,
                                                   const CompleteBatch::Indices& indices,
                                                   std::size_t max_bytes);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_REPLY_SLICES_H_
