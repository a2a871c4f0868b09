#ifndef IDEMPOTENCY_CORE_RECORD_METADATA_NAMES_H_
#define IDEMPOTENCY_CORE_RECORD_METADATA_NAMES_H_

#include <string_view>

#include "grpc_idempotency/idempotency_key.h"

namespace idempotency::internal {

// True for the keys that the guard writes, and for the caller's metadata about its own record,
// which a handler may have copied. They are never stored.
inline bool IsRecordMetadata(std::string_view key) {
  return key == kRecordMetadata || key == kExpiresMetadata || key == kReplayedMetadata ||
         key == kTraceMetadata || key == kContentMetadata || key == kParentMetadata;
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_RECORD_METADATA_NAMES_H_
