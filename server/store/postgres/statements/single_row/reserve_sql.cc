#include "server/store/postgres/statements/single_row/sql.h"

namespace idempotency::internal::single_row_sql {

const std::string_view kReserve = R"sql(
-- statement: read_clock
SELECT {now}

-- piece: row_until_digest
-- The columns of a read, in the order of record_column, whose clock and checkpoint are NULL here; no
-- subquery, which a distributed server would plan anew each time.
t.id, t.namespace, t.scope, t.operation, t.key, t.state, t.require_recovery, t.recovering,
t.attempt, t.token, t.request_token, t.created_at, t.lease_until, t.expires_at, t.completed_at,
t.fingerprints, t.reply_digest

-- piece: row_from_tombstone
t.tombstone_until, t.status_digest, t.release_reason, NULL::timestamptz

-- piece: row_until_checkpoint
{row_until_digest}, t.reply_until, {row_from_tombstone},
CASE WHEN octet_length(t.reply) <= $2::bigint THEN t.reply END, NULL::bytea, t.labels::text

-- piece: row_after_confirmed
t.parent_namespace, t.parent_scope, t.parent_operation, t.parent_key

-- statement: read_row
-- $1 id, $2 how many bytes a reply that is read may have, here and in {read_row_confirmed}.
SELECT {row_until_checkpoint}, NULL::boolean, {row_after_confirmed}
FROM records t WHERE t.id = $1::uuid

-- statement: read_row_confirmed
SELECT {row_until_checkpoint}, {confirmed}, {row_after_confirmed}
FROM records t WHERE t.id = $1::uuid

-- statement: read_row_checkpoint
-- $1 id. Returns record_created_at, checkpoint.
SELECT p.record_created_at, p.checkpoint FROM checkpoints p WHERE p.id = $1::uuid

-- statement: insert_row
-- $1 id, $2-$5 the four parts, $6 require_recovery, $7 token, $8 request token or NULL,
-- $9 created_at, $10 lease_until, $11 expires_at, $12 fingerprints, $13-$16 the parent's parts or
-- NULL, $17 labels or NULL, $18 reply_until or NULL, $19 tombstone_until or NULL. Returns id, or
-- no row if the record exists.
INSERT INTO records AS t (
  id, namespace, scope, operation, key, state, require_recovery, attempt, token, request_token,
  created_at, lease_until, expires_at, fingerprints,
  parent_namespace, parent_scope, parent_operation, parent_key, labels,
  reply_until, tombstone_until)
VALUES ($1::uuid, $2::text, $3::text, $4::text, $5::text, 1, $6::boolean, 1, $7::uuid, $8::uuid,
  $9::timestamptz, $10::timestamptz, $11::timestamptz, $12::bytea,
  $13::text, $14::text, $15::text, $16::text, $17::text::jsonb,
  $18::timestamptz, $19::timestamptz)
ON CONFLICT (id) DO NOTHING
RETURNING t.id

-- statement: start_row_afresh
-- $1-$19 as in {insert_row}; $20 token, $21 attempt, $22 state, $23 expires_at, $24 tombstone_until
-- or NULL, as read. Returns id.
UPDATE records t SET
  require_recovery = $6::boolean, token = $7::uuid, request_token = $8::uuid,
  created_at = $9::timestamptz, lease_until = $10::timestamptz, expires_at = $11::timestamptz,
  fingerprints = $12::bytea, parent_namespace = $13::text, parent_scope = $14::text,
  parent_operation = $15::text, parent_key = $16::text, labels = $17::text::jsonb,
  reply_until = $18::timestamptz, tombstone_until = $19::timestamptz,
  state = 1, recovering = false, watched = false, open_for_long = false, attempt = 1,
  completed_at = NULL, reply = NULL, reply_digest = NULL, status_digest = NULL,
  release_reason = NULL
WHERE t.id = $1::uuid AND t.namespace = $2::text AND t.scope = $3::text
  AND t.operation = $4::text AND t.key = $5::text
  AND t.token = $20::uuid AND t.attempt = $21::integer AND t.state = $22::smallint
  AND t.expires_at = $23::timestamptz AND t.tombstone_until IS NOT DISTINCT FROM $24::timestamptz
RETURNING t.id

-- statement: clear_old_row_checkpoint
-- $1 id, $2 the created_at of the life before. Also what lives before that one left: nobody reads
-- it. So what is left by a process that ends before this costs its space only.
UPDATE checkpoints p SET checkpoint = ''
WHERE p.id = $1::uuid AND p.record_created_at <= $2::timestamptz

-- statement: grant_row
-- $1-$6 as in {expected}; $7 new token, $8 request token or NULL, $9 whether it is a recovery grant,
-- $10 lease_until, $11 expires_at, $12 tombstone_until or NULL. Returns id.
UPDATE records t SET
  state = 1, watched = false, attempt = t.attempt + 1, token = $7::uuid, request_token = $8::uuid,
  recovering = $9::boolean, lease_until = $10::timestamptz, expires_at = $11::timestamptz,
  tombstone_until = $12::timestamptz,
  release_reason = CASE WHEN t.state <> 1 THEN t.release_reason END
WHERE {expected}
RETURNING t.id

-- statement: renew_row_lease
-- $1-$6 as in {expected}; $7 lease_until. Returns id.
UPDATE records t SET lease_until = $7::timestamptz WHERE {expected} RETURNING t.id

-- statement: mark_row_unknown
-- $1-$6 as in {expected}. Returns id.
UPDATE records t SET state = 4, watched = true, open_for_long = false, release_reason = NULL
WHERE {expected} AND t.require_recovery
RETURNING t.id
)sql";

}  // namespace idempotency::internal::single_row_sql
