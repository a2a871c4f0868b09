// The numbers for /metrics.
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/store/sqlite/records.h"
#include "server/store/store_gauges.h"

namespace idempotency::internal {
namespace {

// Both read a bounded number of rows: they run every second.
constexpr char kOldestReserved[] =
    "SELECT min(created_at) FROM (SELECT created_at FROM records INDEXED BY records_reserved"
    " WHERE state = 1 AND lease_expires_at > ?1 ORDER BY lease_expires_at LIMIT 10000)";
constexpr char kCountUnknown[] =
    "SELECT count(*) FROM (SELECT 1 FROM records WHERE state = 4 LIMIT ?1)";

}  // namespace

absl::Status SqliteRecords::PrepareGauges(SqliteConnection& connection) {
  return PrepareAll(connection,
                    {{oldest_reserved_, kOldestReserved}, {count_unknown_, kCountUnknown}});
}

absl::StatusOr<std::optional<absl::Time>> SqliteRecords::OldestReserved(absl::Time now) {
  SqliteStatement::Run run(oldest_reserved_);
  run->Bind(1, now);
  const absl::StatusOr<bool> row = run->Step();
  if (!row.ok()) return row.status();
  return *row ? run->Time(0) : std::nullopt;
}

absl::StatusOr<std::int64_t> SqliteRecords::CountUnknown() {
  SqliteStatement::Run run(count_unknown_);
  run->Bind(1, StoreGauges::kMaxCountedUnknown);
  const absl::StatusOr<bool> row = run->Step();
  if (!row.ok()) return row.status();
  return *row ? run->Integer(0).value_or(0) : 0;
}

}  // namespace idempotency::internal
