#include "server/store/record_store.h"

#include "server/store/same_request.h"

namespace idempotency::internal {

FingerprintMatch RecordStore::MatchRequest(const Record& record, const ReserveOp& op) const {
  return CompareRequest(record.fingerprints, op);
}

}  // namespace idempotency::internal
