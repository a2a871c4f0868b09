#ifndef IDEMPOTENCY_SERVER_STORE_NAMESPACE_USAGE_H_
#define IDEMPOTENCY_SERVER_STORE_NAMESPACE_USAGE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "server/store/admin_operations.h"

namespace idempotency::internal {

// The storage that the records of one namespace use.
struct NamespaceUsage {
  // Without those that are forgotten, which the sweep has not removed yet.
  std::int64_t records = 0;
  // The size of their replies, as they are stored.
  std::int64_t reply_bytes = 0;
};

// One step of a measurement.
struct UsageOp {
  std::string name_space;
  // Where the last step ended; nullopt at the beginning.
  std::optional<RecordPlace> after;
  // At most this many rows are read, by an index. At least 1.
  int limit = 2000;
};

struct UsageStep {
  // The usage in these rows.
  NamespaceUsage usage;
  // Rows read, forgotten records included.
  std::int64_t visited = 0;
  // Where to continue; nullopt at the end.
  std::optional<RecordPlace> next;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_NAMESPACE_USAGE_H_
