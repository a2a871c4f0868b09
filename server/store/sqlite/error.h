#ifndef IDEMPOTENCY_SERVER_STORE_SQLITE_ERROR_H_
#define IDEMPOTENCY_SERVER_STORE_SQLITE_ERROR_H_

#include "absl/status/status.h"

namespace idempotency::internal {

// Logs what SQLite reported (an extended result code) and returns
// STORE_UNAVAILABLE without that detail: disk full, IO error, damaged file,
// file locked by another program.
absl::Status SqliteUnavailable(int extended_code);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_SQLITE_ERROR_H_
