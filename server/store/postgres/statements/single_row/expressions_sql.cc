#include "server/store/postgres/statements/single_row/sql.h"

namespace idempotency::internal::single_row_sql {

// States are numbers: 1 RESERVED, 2 COMPLETED, 3 RELEASED, 4 UNKNOWN.
const std::string_view kExpressions = R"sql(
-- piece: expected
-- t is as it was read: $1 id, $2 token, $3 attempt, $4 state, $5 the end of the lease,
-- $6 expires_at.
t.id = $1::uuid AND t.token = $2::uuid AND t.attempt = $3::integer AND t.state = $4::smallint
  AND t.lease_until = $5::timestamptz AND t.expires_at = $6::timestamptz

-- piece: held
-- t is the record of $1 to $6 (id, token, the four parts), held by that token.
t.id = $1::uuid AND t.token = $2::uuid AND t.namespace = $3::text AND t.scope = $4::text
  AND t.operation = $5::text AND t.key = $6::text

-- piece: confirmed
-- What was read is on every node that commits must reach: as in PostgresStatements; evaluated on
-- the node that has the row.
CASE WHEN current_setting('synchronous_standby_names') <> ''
  THEN pg_logical_emit_message(true, 'idempotency', '') IS NOT NULL END
)sql";

}  // namespace idempotency::internal::single_row_sql
