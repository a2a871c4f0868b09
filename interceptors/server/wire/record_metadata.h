#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_RECORD_METADATA_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_RECORD_METADATA_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "core/record_metadata_names.h"
#include "idempotency/v1/record.pb.h"

namespace idempotency::internal {

using MetadataEntries = std::vector<std::pair<std::string, std::string>>;

// The metadata of a guarded reply about its record, always trailing metadata: it works for
// every outcome, and initial metadata on a rejection would prevent gRPC's own retries. Leaves
// out a record id that is empty or not ASCII, an unknown time, and `idempotency-replayed` unless
// true.
MetadataEntries RecordMetadata(std::string_view record_id, absl::Time expires_at, bool replayed);

// To the trailing metadata of `reply`.
void AddTrailers(MetadataEntries entries, v1::Reply& reply);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_RECORD_METADATA_H_
