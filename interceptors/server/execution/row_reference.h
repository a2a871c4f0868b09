#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_ROW_REFERENCE_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_ROW_REFERENCE_H_

#include <optional>

#include "idempotency/v1/record.pb.h"

namespace idempotency::internal {

// The handler's reference (Execution::SetReference) in a row of the completion ledger: one more
// trailing metadata entry of its reply, so that every ledger stores it, and the attempt that
// finds the row can complete its record. No caller and no store gets this entry.
void AddRowReference(const v1::Reference& reference, v1::Reply& reply);
// Removes it; nullopt if the row has none.
std::optional<v1::Reference> TakeRowReference(v1::Reply& reply);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_ROW_REFERENCE_H_
