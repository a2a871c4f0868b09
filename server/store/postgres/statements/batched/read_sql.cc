#include "server/store/postgres/statements/batched/sql.h"

namespace idempotency::internal::batched_sql {

const std::string_view kRead = R"sql(
-- statement: read_whole
-- $1 ids. The server's current data, confirmed or not: operators read records
-- also while a standby is unavailable.
SELECT {record}, {reply}, NULL::bytea, {labels}, NULL::boolean,
  t.parent_namespace, t.parent_scope, t.parent_operation, t.parent_key
FROM records t WHERE t.id = ANY($1::uuid[])

-- statement: read_whole_confirmed
-- The same for an answer to a caller of a guarded method.
SELECT {record}, {reply}, NULL::bytea, {labels}, {confirmed},
  t.parent_namespace, t.parent_scope, t.parent_operation, t.parent_key, t.release_reason
FROM records t WHERE t.id = ANY($1::uuid[])

-- statement: find_locked
-- $1 ids, sorted. Which of these rows other sessions have locked. The strength is that of
-- the updates, so that a lock which does not block them does not count.
SELECT t.id FROM records t
WHERE t.id = ANY($1::uuid[]) AND t.id <> ALL(ARRAY(
    SELECT s.id FROM records s WHERE s.id = ANY($1::uuid[])
    ORDER BY s.id FOR NO KEY UPDATE SKIP LOCKED))
)sql";

}  // namespace idempotency::internal::batched_sql
