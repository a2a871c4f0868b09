#include "server/store/sqlite/error.h"

#include <spdlog/spdlog.h>
#include <sqlite3.h>

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {

absl::Status SqliteUnavailable(int extended_code) {
  // Not sqlite3_errmsg: it can quote SQL.
  spdlog::error("sqlite: {} (result code {})", sqlite3_errstr(extended_code), extended_code);
  return MakeError(Reason::kStoreUnavailable,
                   "the record store could not answer; repeat the call with the same tokens",
                   RetryAfter(retry_delays::kSqliteUnconfirmed));
}

}  // namespace idempotency::internal
