#ifndef IDEMPOTENCY_SERVER_OPERATION_FAILED_READ_H_
#define IDEMPOTENCY_SERVER_OPERATION_FAILED_READ_H_

#include "absl/status/status.h"

namespace idempotency::internal {

// The answer to a caller that named a record by its id, and that has no permission for every
// namespace, when the read failed: NoSuchRecord() for every failure of the record itself, since its
// namespace could not be compared. A failure that has nothing to do with the record is returned as
// it is.
absl::Status FailureWithoutNamespace(const absl::Status& failure);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OPERATION_FAILED_READ_H_
