#include "server/operation/failed_read.h"

#include "server/store/record_operations.h"

namespace idempotency::internal {

absl::Status FailureWithoutNamespace(const absl::Status& failure) {
  switch (failure.code()) {
    // The store, or the service in front of it.
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
      return failure;
    default:
      return NoSuchRecord();
  }
}

}  // namespace idempotency::internal
