#ifndef IDEMPOTENCY_CORE_INDEFINITE_CODE_H_
#define IDEMPOTENCY_CORE_INDEFINITE_CODE_H_

#include "absl/status/status.h"

namespace idempotency::internal {

// True for the codes with which an operation of idempotencyd may have happened. ProvesNothing() is
// another set, for handlers behind a guard: it has UNIMPLEMENTED, since the callback API returns it
// when a handler throws, and not INTERNAL, which a guard may record.
inline bool IsIndefiniteCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kInternal:
      return true;
    default:
      return false;
  }
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_INDEFINITE_CODE_H_
