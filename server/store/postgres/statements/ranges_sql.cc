#include "server/store/postgres/statements/ranges_sql.h"

namespace idempotency::internal {

// Each is a range of one index, in its order: no other index has that, so the planner does not
// sort, nor follow another one past any number of rows that are not wanted. A condition that is the
// predicate of a partial index keeps that index from every statement without it.
//
// The server ends the scan of a range with its last row only if the columns before the one that
// bounds it are each equal to a value: an upper bound that is a row of columns ends it with the
// first column. Where that leaves the primary key's order, the value is in an array of one, and the
// planner would have to sort (ConnectionSettings() in connection/connection.cc).
const std::string_view kRangesSql = R"sql(
-- piece: namespace_range
-- $1 namespace, $2 scope and $3 id to continue after, $4 how many.
WHERE t.namespace >= ''
  AND (t.namespace, t.scope, t.id) > ($1::text, $2::text, $3::uuid) AND t.namespace <= $1::text
ORDER BY t.namespace, t.scope, t.id LIMIT $4::integer

-- piece: scope_range
-- $1 namespace, $2 scope, $3 id to continue after, $4 how many.
WHERE t.namespace >= ''
  AND t.namespace = $1::text AND (t.scope, t.id) > ($2::text, $3::uuid) AND t.scope <= $2::text
ORDER BY t.namespace, t.scope, t.id LIMIT $4::integer

-- piece: unknown_range
-- $1 namespace, $2 id to continue after, $3 how many. As the predicate of records_unknown is
-- written, no other index has it.
WHERE t.watched::integer = 1
  AND (t.namespace, t.id) > ($1::text, $2::uuid) AND t.namespace <= $1::text
ORDER BY t.namespace, t.id LIMIT $3::integer

-- piece: children_range
-- $1 the parent's key, $2 id to continue after, $3 how many.
WHERE t.parent_key IS NOT NULL
  AND (t.parent_key, t.id) > ($1::text, $2::uuid) AND t.parent_key <= $1::text
ORDER BY t.parent_key, t.id LIMIT $3::integer

-- piece: scopes_range
-- $1 namespace, $2 scope and $3 id to continue after, $4 the scope to end before, $5 how many.
WHERE t.namespace >= ''
  AND t.namespace = $1::text AND (t.scope, t.id) > ($2::text, $3::uuid) AND t.scope < $4::text
ORDER BY t.namespace, t.scope, t.id LIMIT $5::integer

-- piece: within_scope_range
-- $1 namespace, $2 scope, $3 id to continue after, $4 the last one, $5 how many.
WHERE t.namespace >= ''
  AND t.namespace = ANY(ARRAY[$1::text]) AND t.scope = $2::text
  AND t.id > $3::uuid AND t.id <= $4::uuid
ORDER BY t.namespace, t.scope, t.id LIMIT $5::integer

-- statement: places_in_scopes
-- As in {scopes_range}. Returns scope, id, as each of these: from the index alone where the server
-- can.
SELECT t.scope, t.id FROM records t
{scopes_range}

-- statement: places_in_scope
-- As in {within_scope_range}.
SELECT t.scope, t.id FROM records t
{within_scope_range}

-- statement: places_of_unknown
-- $1 namespace, $2 id to continue after, $3 the last one, $4 how many.
SELECT t.scope, t.id FROM records t
WHERE t.watched::integer = 1
  AND t.namespace = ANY(ARRAY[$1::text]) AND t.id > $2::uuid AND t.id <= $3::uuid
ORDER BY t.namespace, t.id LIMIT $4::integer

-- statement: places_of_children
-- $1 the parent's key, then as in {places_of_unknown}.
SELECT t.scope, t.id FROM records t
WHERE t.parent_key IS NOT NULL
  AND t.parent_key = ANY(ARRAY[$1::text]) AND t.id > $2::uuid AND t.id <= $3::uuid
ORDER BY t.parent_key, t.id LIMIT $4::integer
)sql";

}  // namespace idempotency::internal
