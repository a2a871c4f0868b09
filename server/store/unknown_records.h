#ifndef IDEMPOTENCY_SERVER_STORE_UNKNOWN_RECORDS_H_
#define IDEMPOTENCY_SERVER_STORE_UNKNOWN_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {

// One step through the UNKNOWN records of a namespace, which ends those that were it for `life`.
struct EndUnknownOp {
  std::string name_space;
  absl::Duration life;
  // Where the last step ended; nullopt at the beginning.
  std::optional<RecordId> after;
  // At most this many records are read, by an index of UNKNOWN ones. At least 1.
  int limit = 500;
};

struct EndUnknownStep {
  // Only their tombstone is left.
  std::int64_t ended = 0;
  std::int64_t visited = 0;
  // Where to continue; nullopt at the end.
  std::optional<RecordId> next;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_UNKNOWN_RECORDS_H_
