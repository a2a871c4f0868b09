#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_RECORD_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_RECORD_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/store/decision.h"
#include "server/store/postgres/connection/result.h"

namespace idempotency::internal {

// One row of a statement that reads records, and the store's time when it was
// read.
struct PostgresRecord {
  StoredRecord stored;
  absl::Time read_at;
  // Those read before it reached the limit: read the others again.
  bool reply_left_out = false;
};

// The columns that a read statement selected; the others are left empty.
// DATA_LOSS / RECORD_DAMAGED for a row that this store cannot have written, or whose columns have
// other types than those of its schema.
absl::StatusOr<PostgresRecord> ReadRecord(const PostgresResult& result, int row);

// A JSON object, for the column labels.
std::string LabelsToJson(const std::map<std::string, std::string>& labels);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_RECORD_H_
