#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_SQL_STATE_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_SQL_STATE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace idempotency::internal {

// The SQLSTATE that a failure of PostgresConnection contains; "" if it contains none, as of a
// conflict or a lock, which have a code of their own.
std::string SqlStateOf(const absl::Status& failure);

// Whether the statement fails again until somebody changes the schema, its content or a privilege.
// Otherwise the failure is of the moment: a cancelled statement, a full disk or memory, a conflict.
bool IsLasting(std::string_view sql_state);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_SQL_STATE_H_
