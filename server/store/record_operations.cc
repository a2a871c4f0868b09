#include "server/store/record_operations.h"

#include "grpc_idempotency/errors.h"

namespace idempotency::internal {

absl::Status NoRoomForARecord() {
  return MakeError(Reason::kQuotaExceeded, "the namespace has reached its limit of records");
}

absl::Status NoSuchRecord() {
  return MakeError(Reason::kRecordNotFound,
                   "there is no such record, it has expired, or you may not read it");
}

}  // namespace idempotency::internal
