#ifndef IDEMPOTENCY_SERVER_STORE_STORE_GAUGES_H_
#define IDEMPOTENCY_SERVER_STORE_STORE_GAUGES_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace idempotency::internal {

// Numbers for /metrics; reading them must be cheap at any table size. None while a store that
// commits has not been able to read them.
struct StoreGauges {
  // Counting stops at this number.
  static constexpr std::int64_t kMaxCountedUnknown = 1000;

  // The age of the oldest record that is RESERVED under a live lease, from its first
  // reservation. Zero without such a record: one whose attempt was abandoned does not
  // count.
  std::optional<absl::Duration> oldest_reserved_age;
  // At most kMaxCountedUnknown, which means that many or more.
  std::optional<std::int64_t> unknown_records;
  // Otherwise one or both could not be read, and are those of before, or none.
  bool read = true;
  // The write-ahead log of a SQLite file; none of another store.
  std::optional<std::int64_t> sqlite_wal_bytes = std::nullopt;
  // Servers of a Redis Cluster that lack data that they had; none of another store.
  std::optional<std::int64_t> redis_lost_servers = std::nullopt;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_STORE_GAUGES_H_
