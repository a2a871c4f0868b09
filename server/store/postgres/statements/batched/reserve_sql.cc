#include "server/store/postgres/statements/batched/sql.h"

namespace idempotency::internal::batched_sql {

const std::string_view kReserve = R"sql(
-- piece: many_operations
-- A batch as rows. In the list of columns, where Postgres opens the arrays side by side: in FROM it
-- would write the rows of each to a store of their own first (a fifteenth of the server's
-- instructions for a cycle). Without records that exist: an insert waits while another call changes
-- such a row, and that call may wait for a key of this one. One by one, and as a range in the
-- order of the primary key: a join, or another index, would be read as a whole where the table was
-- empty when the statement was planned.
SELECT * FROM (
  SELECT unnest($1::uuid[]) AS id, unnest($2::text[]) AS namespace, unnest($3::text[]) AS scope,
    unnest($4::text[]) AS operation, unnest($5::text[]) AS key,
    unnest($6::timestamptz[]) AS made_at, unnest($7::interval[]) AS key_window,
    unnest($8::bytea[]) AS fingerprints, unnest($9::boolean[]) AS require_recovery,
    unnest($10::uuid[]) AS token, unnest($11::uuid[]) AS request_token,
    unnest($12::interval[]) AS lease, unnest($13::interval[]) AS retention,
    unnest($14::text[]) AS parent_namespace, unnest($15::text[]) AS parent_scope,
    unnest($16::text[]) AS parent_operation, unnest($17::text[]) AS parent_key,
    unnest($18::text[]) AS labels, unnest($19::interval[]) AS reply_retention,
    unnest($20::interval[]) AS tombstone) v
WHERE (SELECT r.id FROM records r WHERE r.id BETWEEN v.id AND v.id ORDER BY r.id LIMIT 1) IS NULL
ORDER BY v.id

-- piece: one_operation
-- The same for one, the parameters without arrays: an array costs the server a microsecond or two,
-- and there are twenty. A subquery, so that the columns have the same names.
SELECT $1::uuid AS id, $2::text AS namespace, $3::text AS scope, $4::text AS operation,
  $5::text AS key, $6::timestamptz AS made_at, $7::interval AS key_window,
  $8::bytea AS fingerprints, $9::boolean AS require_recovery, $10::uuid AS token,
  $11::uuid AS request_token, $12::interval AS lease, $13::interval AS retention,
  $14::text AS parent_namespace, $15::text AS parent_scope, $16::text AS parent_operation,
  $17::text AS parent_key, $18::text AS labels, $19::interval AS reply_retention,
  $20::interval AS tombstone

-- piece: insert_into
-- Every insert begins and ends alike; between is the batch as rows u.
INSERT INTO records AS t (
  id, namespace, scope, operation, key, state, require_recovery, attempt, token, request_token,
  created_at, lease_until, expires_at, fingerprints,
  parent_namespace, parent_scope, parent_operation, parent_key, labels,
  reply_until, tombstone_until)
SELECT
  u.id, u.namespace, u.scope, u.operation, u.key, 1, u.require_recovery, 1, u.token,
  u.request_token,
  c.now, least(c.now + u.lease, e.expires_at), e.expires_at, u.fingerprints,
  u.parent_namespace, u.parent_scope, u.parent_operation, u.parent_key, u.labels::jsonb,
  c.now + u.reply_retention, e.expires_at + u.tombstone

-- piece: insert_if_new
-- The clock is read per row, at the row's turn: the WHERE inside c ties it to u, so that it can
-- neither be computed once nor before the sort.
CROSS JOIN LATERAL (SELECT {now} AS now WHERE u.id IS NOT NULL) c
CROSS JOIN LATERAL (
  SELECT CASE WHEN u.made_at IS NULL THEN c.now + u.retention
    ELSE greatest(c.now, u.made_at) + greatest(u.retention, u.key_window) END AS expires_at) e
WHERE u.made_at IS NULL
  OR (c.now < u.made_at + u.key_window AND u.made_at <= c.now + {ahead})
ON CONFLICT (id) DO NOTHING
RETURNING t.id, t.created_at, t.lease_until, t.expires_at, {now}

-- statement: insert
-- $1 ids, $2-$5 the four parts, $6 when the key was made or NULL, $7 its window, $8 fingerprints,
-- $9 require_recovery, $10 tokens, $11 request tokens or NULL, $12 leases, $13 retentions, $14-$17
-- the parent's parts or NULL, $18 labels or NULL, $19 the replies' retentions or NULL, $20
-- tombstones or NULL. Returns id, created_at, lease_until, expires_at, now for those inserted;
-- those missing exist, or their key is outside the window.
{insert_into}
FROM ({many_operations}) u
{insert_if_new}

-- statement: insert_one
-- The same for one, whose parameters are no arrays.
{insert_into}
FROM ({one_operation}) u
{insert_if_new}

-- statement: insert_relaxed
-- The same two, whose commits do not wait for the disk, nor for a standby.
{insert}, {relaxed}

-- statement: insert_one_relaxed
{insert_one}, {relaxed}

-- piece: after_reply
-- A completed record's checkpoint is no longer needed.
CASE WHEN t.state <> 2 THEN (SELECT p.checkpoint FROM checkpoints p
    WHERE p.id = t.id AND p.record_created_at = t.created_at) END,
  {labels}, {confirmed}
FROM records t WHERE t.id = ANY($1::uuid[])

-- statement: read_to_reserve
-- $1 ids, $2 how many bytes a reply that is read may have.
SELECT {record}, CASE WHEN octet_length(t.reply) <= $2::bigint THEN t.reply END, {after_reply}

-- statement: read_large_to_reserve
-- $1 ids, $2 bytes: a reply is read unless those before it have so many together.
SELECT {record}, CASE WHEN {bytes_before} < $2::bigint THEN t.reply END, {after_reply}

-- statement: read_clock
SELECT {now}

-- statement: start_afresh
-- A forgotten record starts afresh in its own row, so that reservations need no right to delete.
-- $1-$20 as in {insert}; $21 tokens, $22 attempts, as read. Returns what {insert} returns. The
-- checkpoint keeps the created_at of the life before, under which nobody reads it.
WITH afresh AS (
  UPDATE records t SET
    (require_recovery, token, request_token, created_at, lease_until, expires_at, fingerprints,
     parent_namespace, parent_scope, parent_operation, parent_key, labels,
     reply_until, tombstone_until) = (
      SELECT ($9::boolean[])[c.i], ($10::uuid[])[c.i], ($11::uuid[])[c.i],
        c.now, least(c.now + ($12::interval[])[c.i], e.expires_at), e.expires_at,
        ($8::bytea[])[c.i], ($14::text[])[c.i], ($15::text[])[c.i], ($16::text[])[c.i],
        ($17::text[])[c.i], (($18::text[])[c.i])::jsonb,
        c.now + ($19::interval[])[c.i], e.expires_at + ($20::interval[])[c.i]
      FROM (SELECT {i} AS i, {now} AS now) c
      CROSS JOIN LATERAL (
        SELECT CASE WHEN ($6::timestamptz[])[c.i] IS NULL THEN c.now + ($13::interval[])[c.i]
          ELSE greatest(c.now, ($6::timestamptz[])[c.i])
            + greatest(($13::interval[])[c.i], ($7::interval[])[c.i]) END AS expires_at) e),
    state = 1, recovering = false, watched = false, open_for_long = false, attempt = 1,
    completed_at = NULL, reply = NULL, reply_digest = NULL, status_digest = NULL,
    release_reason = NULL
  WHERE t.id = ANY($1::uuid[]) AND t.token = ($21::uuid[])[{i}]
    AND t.attempt = ($22::integer[])[{i}]
    AND t.namespace = ($2::text[])[{i}] AND t.scope = ($3::text[])[{i}]
    AND t.operation = ($4::text[])[{i}] AND t.key = ($5::text[])[{i}]
    AND {gone}
    AND (($6::timestamptz[])[{i}] IS NULL
      OR ({now} < ($6::timestamptz[])[{i}] + ($7::interval[])[{i}]
        AND ($6::timestamptz[])[{i}] <= {now} + {ahead}))
  RETURNING t.id, t.created_at, t.lease_until, t.expires_at, {now} AS now),
cleared AS (
  UPDATE checkpoints p SET checkpoint = '' WHERE p.id = ANY(ARRAY(SELECT a.id FROM afresh a)))
SELECT a.id, a.created_at, a.lease_until, a.expires_at, a.now FROM afresh a

-- statement: grant
-- $1 ids; $2 tokens, $3 attempts, $4 states, $5 leases' ends, as read (any
-- heartbeat in between moves the last one); $6 new tokens, $7 request tokens or
-- NULL, $8 leases, $9 retentions for recovery grants, else NULL. Returns id,
-- lease_until, expires_at, now.
UPDATE records t SET
  state = 1, watched = false, attempt = t.attempt + 1,
  token = ($6::uuid[])[{i}], request_token = ($7::uuid[])[{i}],
  recovering = ($9::interval[])[{i}] IS NOT NULL,
  lease_until = least({now} + ($8::interval[])[{i}],
    greatest(t.expires_at, {now} + ($9::interval[])[{i}])),
  expires_at = greatest(t.expires_at, {now} + ($9::interval[])[{i}]),
  tombstone_until = greatest(t.expires_at, {now} + ($9::interval[])[{i}])
    + (t.tombstone_until - t.expires_at),
  release_reason = CASE WHEN t.state <> 1 THEN t.release_reason END
WHERE t.id = ANY($1::uuid[]) AND t.token = ($2::uuid[])[{i}] AND t.attempt = ($3::integer[])[{i}]
  AND t.state = ($4::smallint[])[{i}] AND t.lease_until = ($5::timestamptz[])[{i}]
  AND (t.state = 4 OR t.lease_until <= {now}) AND {remembered}
RETURNING t.id, t.lease_until, t.expires_at, {now}

-- statement: renew_lease
-- $1 ids, $2 tokens, $3 attempts, as read; $4 leases. Returns id, lease_until,
-- expires_at, now.
UPDATE records t SET lease_until = least({now} + ($4::interval[])[{i}], t.expires_at)
WHERE t.id = ANY($1::uuid[]) AND t.token = ($2::uuid[])[{i}] AND t.attempt = ($3::integer[])[{i}]
  AND t.state = 1 AND t.lease_until <= {now} AND {remembered}
RETURNING t.id, t.lease_until, t.expires_at, {now}

-- statement: mark_unknown
-- $1 ids, $2 tokens, $3 attempts, as read. Returns id, lease_until.
UPDATE records t SET state = 4, watched = true, open_for_long = false, release_reason = NULL
WHERE t.id = ANY($1::uuid[]) AND t.token = ($2::uuid[])[{i}] AND t.attempt = ($3::integer[])[{i}]
  AND t.state = 1 AND t.require_recovery AND t.lease_until <= {now}
RETURNING t.id, t.lease_until
)sql";

}  // namespace idempotency::internal::batched_sql
