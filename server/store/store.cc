#include "server/store/store.h"

#include "grpc_idempotency/errors.h"
#include "server/store/same_request.h"

namespace idempotency::internal {

FingerprintMatch Store::MatchRequest(const Record& record, const ReserveOp& op) const {
  return CompareRequest(record.fingerprints, op);
}

absl::Status NoRoomForARecord() {
  return MakeError(Reason::kQuotaExceeded, "the namespace has as many records as it may");
}

absl::Status NoSuchRecord() {
  return MakeError(Reason::kRecordNotFound,
                   "there is no such record, it has expired, or you may not read it");
}

}  // namespace idempotency::internal
