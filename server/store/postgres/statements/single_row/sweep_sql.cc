#include "server/store/postgres/statements/single_row/sql.h"

namespace idempotency::internal::single_row_sql {

const std::string_view kSweep = R"sql(
-- piece: visit
SELECT t.id, t.created_at, t.token, t.attempt, t.state, t.require_recovery, t.lease_until,
  t.expires_at, t.reply_until, t.tombstone_until, t.status_digest IS NOT NULL,
  octet_length(t.fingerprints) = 0, t.open_for_long, t.watched, coalesce(octet_length(t.reply), 0)
FROM records t

-- statement: visit_ordered
-- $1 the id to continue after, $2 the last one at most, $3 how many.
{visit}
WHERE t.id > $1::uuid AND t.id <= $2::uuid AND t.id < '80000000-0000-0000-0000-000000000000'
ORDER BY t.id LIMIT $3::integer

-- statement: visit_hashed
-- $1 and $2 created_at and id to continue after, $3 and $4 the last ones at most, $5 how many.
{visit}
WHERE t.id >= '80000000-0000-0000-0000-000000000000'
  AND (t.created_at, t.id) > ($1::timestamptz, $2::uuid)
  AND (t.created_at, t.id) <= ($3::timestamptz, $4::uuid)
ORDER BY t.created_at, t.id LIMIT $5::integer

-- statement: remove_row
-- $1-$6 as in {expected}; $7 tombstone_until or NULL, as read: a purge that leaves a tombstone
-- may change nothing else that {expected} compares. Returns created_at.
DELETE FROM records t
WHERE {expected} AND t.tombstone_until IS NOT DISTINCT FROM $7::timestamptz
RETURNING t.created_at

-- statement: entomb_row
-- $1-$6 as in {expected}; $7 created_at, $8 lease_until, $9 expires_at, $10 tombstone_until; $11
-- tombstone_until or NULL, as read, as in {remove_row}. Returns id.
UPDATE records t SET
  state = 3, watched = false, open_for_long = false, completed_at = NULL, fingerprints = '',
  request_token = NULL, reply = NULL, reply_digest = NULL, status_digest = NULL,
  reply_until = NULL, labels = NULL, release_reason = NULL, parent_namespace = NULL,
  parent_scope = NULL, parent_operation = NULL, parent_key = NULL,
  created_at = $7::timestamptz, lease_until = $8::timestamptz, expires_at = $9::timestamptz,
  tombstone_until = $10::timestamptz
WHERE {expected} AND t.tombstone_until IS NOT DISTINCT FROM $11::timestamptz
RETURNING t.id

-- statement: watch_row
-- $1-$6 as in {expected}; $7 open_for_long.
UPDATE records t SET open_for_long = $7::boolean, watched = (t.state = 4) WHERE {expected}

-- statement: drop_row_reply
-- $1-$6 as in {expected}; $7 the remaining part of the reply, $8 its digest, $9 the digest of the
-- reply, as read. Returns id.
UPDATE records t SET reply = $7::bytea, status_digest = $8::bytea
WHERE {expected} AND t.status_digest IS NULL AND t.reply_digest = $9::bytea
RETURNING t.id

-- statement: remove_row_checkpoint
-- $1 id, $2 the created_at of the record that was removed or reduced.
DELETE FROM checkpoints p WHERE p.id = $1::uuid AND p.record_created_at <= $2::timestamptz

-- statement: walk_checkpoints
-- $1 the id to continue after, $2 the last one at most, $3 how many. Returns id, record_created_at.
SELECT p.id, p.record_created_at FROM checkpoints p WHERE p.id > $1::uuid AND p.id <= $2::uuid
ORDER BY p.id LIMIT $3::integer
)sql";

}  // namespace idempotency::internal::single_row_sql
