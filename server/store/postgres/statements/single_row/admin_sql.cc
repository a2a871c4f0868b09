#include "server/store/postgres/statements/single_row/sql.h"

namespace idempotency::internal::single_row_sql {

const std::string_view kAdmin = R"sql(
-- statement: resolve_row
-- $1-$6 as in {expected}; $7 state, $8 token, $9 completed_at, $10 reply and $11 its digest, or
-- NULL; $12 a reason, or NULL for that of before; $13 lease_until, $14 expires_at, $15
-- tombstone_until or NULL. Returns id.
UPDATE records t SET
  state = $7::smallint, watched = false, open_for_long = false, token = $8::uuid,
  completed_at = $9::timestamptz, reply = $10::bytea, reply_digest = $11::bytea,
  release_reason = coalesce($12::text, t.release_reason), lease_until = $13::timestamptz,
  expires_at = $14::timestamptz, tombstone_until = $15::timestamptz
WHERE {expected}
RETURNING t.id

-- statement: replace_row_reply
-- $1 id, $2 token, $3 reply_digest and $4 status_digest or NULL, as read; $5 the reply in its
-- place, $6 and $7 its digests. Returns id.
UPDATE records t SET reply = $5::bytea, reply_digest = $6::bytea, status_digest = $7::bytea
WHERE t.id = $1::uuid AND t.token = $2::uuid AND t.state = 2 AND t.reply_digest = $3::bytea
  AND t.status_digest IS NOT DISTINCT FROM $4::bytea
RETURNING t.id

-- statement: replace_row_checkpoint
-- $1 id, $2 the checkpoint as read, $3 that in its place. Returns id.
UPDATE checkpoints p SET checkpoint = $3::bytea
WHERE p.id = $1::uuid AND p.checkpoint = $2::bytea
RETURNING p.id

-- statement: note_audit
-- $1 at, $2 actor, $3 reason, $4 action, $5 forced, $6 namespace, $7 record's id, $8 AuditHmac() of
-- its key, $9 state, $10 attempt, $11 how many records.
INSERT INTO audit_log (at, actor, reason, action, forced, namespace, record_id, key_hmac, state,
  attempt, records)
VALUES ($1::timestamptz, $2::text, $3::text, $4::smallint, $5::boolean, $6::text, $7::uuid,
  $8::bytea, $9::smallint, $10::integer, $11::integer)

-- piece: row_usage
-- Whether it is live at $6, and the reply's bytes.
SELECT t.scope, t.id,
  (t.expires_at > $6::timestamptz OR t.state = 4 OR (t.state = 1 AND t.require_recovery)),
  octet_length(t.reply)
FROM records t

-- statement: measure_usage_in_scopes
-- $1-$5 as in {scopes_range}, $6 now. Returns scope, id, whether it is live, and the reply's bytes.
{row_usage}
{scopes_range}

-- statement: measure_usage_in_scope
-- $1-$5 as in {within_scope_range}, $6 now. Returns the same.
{row_usage}
{within_scope_range}
)sql";

}  // namespace idempotency::internal::single_row_sql
