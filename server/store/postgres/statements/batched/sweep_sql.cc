#include "server/store/postgres/statements/batched/sql.h"

namespace idempotency::internal::batched_sql {

const std::string_view kSweep = R"sql(
-- piece: sweep_lock
-- One replica sweeps a schema at a time.
sweep_lock AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock(
    hashtextextended('idempotency sweep ' || current_schema, 0)) AS alone)

-- piece: visited
-- The rows of a visit that follow in an order, and what each needs:
--   want   1 remove it, 2 reduce it to its tombstone, 3 mark it UNKNOWN, 4 drop
--          its reply's content; else NULL
--   watch  its open_for_long is wrong: it is true for a reservation that has been open
--          for over a minute, under a live lease
--   due    when a row with neither needs the sweep, NULL for never
--   bytes  the length of its reply, which is known without reading it
SELECT t.id, t.created_at,
  CASE
    WHEN NOT {remembered} THEN CASE
      WHEN {sweepable} THEN 1
      WHEN t.tombstone_until IS NOT NULL AND octet_length(t.fingerprints) > 0
        AND t.expires_at <= {now} - {margin} THEN 2 END
    WHEN t.state = 1 AND t.require_recovery AND t.lease_until <= {now} THEN 3
    WHEN t.state = 2 AND t.reply_until <= {now} AND t.status_digest IS NULL THEN 4
  END AS want,
  t.open_for_long <> {is_open_for_long} OR (t.state = 1 AND t.watched) AS watch,
  CASE
    WHEN t.state = 4 THEN NULL
    WHEN octet_length(t.fingerprints) = 0 THEN t.tombstone_until + {margin}
    WHEN t.state = 1 THEN least(
      CASE WHEN t.require_recovery THEN t.lease_until ELSE t.expires_at + {margin} END,
      CASE WHEN t.lease_until > {now} THEN
        CASE WHEN t.open_for_long THEN t.lease_until ELSE t.created_at + {open_for_long} END
      END)
    WHEN t.state = 2 AND t.status_digest IS NULL THEN least(t.expires_at + {margin}, t.reply_until)
    ELSE t.expires_at + {margin}
  END AS due,
  octet_length(t.reply) AS bytes
FROM records t WHERE (SELECT l.alone FROM sweep_lock l)

-- piece: within_size
-- v as far as the replies that the step removes are small enough together; the first row always.
-- The server reads and logs a stored reply part by part to remove it, before everybody's commits.
-- Both keep the order of what they read, as array_agg() below does.
SELECT w.* FROM (
  SELECT v.*, coalesce(sum(CASE WHEN v.want <= 2 THEN v.bytes END) OVER (
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before
  FROM found v) w
WHERE w.bytes_before < {removed_at_once_bytes}

-- piece: sweep_visited
-- The rest of a step, behind the visits. A step is one statement, which reads the next records
-- without locking them, then locks and changes those that need it. So it holds locks only while the
-- server works on it: a sweeper that is stopped, or whose node is lost, cannot leave any behind.
--
-- The predicates are repeated outside: a record may be reserved again between the read and the
-- lock. Locked rows are busy: the sweep does not wait for them. A row changes once per statement,
-- so rows with another action are not watched.
--
-- Returns one row: whether no other replica sweeps; how many were read, the last one's created_at
-- and id, now, the first time at which a row without an action will need one, how many were
-- removed, reduced to their tombstone, marked UNKNOWN, the ids whose replies are over, whether
-- something was to be changed, and whether the step stopped before its last row.
removed AS (
  DELETE FROM records t
  WHERE t.id = ANY(ARRAY(
      SELECT s.id FROM records s
      WHERE s.id = ANY(ARRAY(SELECT v.id FROM visited v WHERE v.want = 1))
      ORDER BY s.id FOR UPDATE SKIP LOCKED))
    AND {sweepable}
  RETURNING t.id),
entombed AS (
  UPDATE records t SET {entomb}
  WHERE t.id = ANY(ARRAY(
      SELECT s.id FROM records s
      WHERE s.id = ANY(ARRAY(SELECT v.id FROM visited v WHERE v.want = 2))
      ORDER BY s.id FOR UPDATE SKIP LOCKED))
    AND NOT {remembered} AND t.expires_at <= {now} - {margin}
    AND t.tombstone_until IS NOT NULL AND octet_length(t.fingerprints) > 0
  RETURNING t.id),
lapsed AS (
  UPDATE records t SET state = 4, watched = true, open_for_long = false, release_reason = NULL
  WHERE t.id = ANY(ARRAY(
      SELECT s.id FROM records s
      WHERE s.id = ANY(ARRAY(SELECT v.id FROM visited v WHERE v.want = 3))
      ORDER BY s.id FOR UPDATE SKIP LOCKED))
    AND t.state = 1 AND t.require_recovery AND t.lease_until <= {now}
  RETURNING t.id),
watched AS (
  UPDATE records t SET open_for_long = {is_open_for_long}, watched = t.state = 4
  WHERE t.id = ANY(ARRAY(
      SELECT s.id FROM records s
      WHERE s.id = ANY(ARRAY(SELECT v.id FROM visited v WHERE v.watch AND v.want IS NULL))
      ORDER BY s.id FOR UPDATE SKIP LOCKED))),
cleared AS (
  DELETE FROM checkpoints p WHERE p.id = ANY(ARRAY(
    SELECT r.id FROM removed r UNION ALL SELECT e.id FROM entombed e)))
SELECT (SELECT l.alone FROM sweep_lock l),
  count(*), (array_agg(v.created_at))[count(*)], (array_agg(v.id))[count(*)], {now},
  min(v.due) FILTER (WHERE v.want IS NULL AND NOT v.watch),
  (SELECT count(*) FROM removed), (SELECT count(*) FROM entombed), (SELECT count(*) FROM lapsed),
  array_agg(v.id) FILTER (WHERE v.want = 4),
  coalesce(bool_or(v.want > 1 OR v.watch), false),
  count(*) < (SELECT count(*) FROM found)
FROM visited v

-- statement: sweep_ordered
-- $1 the id to continue after, $2 the last one at most, $3 how many.
WITH {sweep_lock},
found AS MATERIALIZED (
  {visited}
  AND t.id > $1::uuid AND t.id <= $2::uuid AND t.id < '80000000-0000-0000-0000-000000000000'
  ORDER BY t.id LIMIT $3::integer),
visited AS MATERIALIZED ({within_size}),
{sweep_visited}

-- statement: sweep_hashed
-- $1 and $2 created_at and id to continue after, $3 and $4 the last ones at most, $5 how many.
WITH {sweep_lock},
found AS MATERIALIZED (
  {visited}
  AND t.id >= '80000000-0000-0000-0000-000000000000'
    AND (t.created_at, t.id) > ($1::timestamptz, $2::uuid)
    AND (t.created_at, t.id) <= ($3::timestamptz, $4::uuid)
  ORDER BY t.created_at, t.id LIMIT $5::integer),
visited AS MATERIALIZED ({within_size}),
{sweep_visited}

-- statement: read_to_drop
-- $1 ids. As many replies as are held in memory at a time, or one that is larger.
SELECT t.id, t.token, t.attempt, t.reply_digest,
  CASE WHEN {bytes_before} < {dropped_at_once_bytes} THEN t.reply END
FROM records t WHERE t.id = ANY($1::uuid[]) AND t.state = 2 AND t.status_digest IS NULL

-- statement: drop_replies
-- $1 ids, $2 tokens, $3 attempts, as read; $4 the remaining parts of the
-- replies, $5 their digests; $6 the digests of the replies, as read: one that was
-- resealed meanwhile is another. Returns id. A row that is locked is left to
-- the next pass.
UPDATE records t SET reply = ($4::bytea[])[{i}], status_digest = ($5::bytea[])[{i}]
WHERE t.id = ANY(ARRAY(
    SELECT s.id FROM records s WHERE s.id = ANY($1::uuid[]) ORDER BY s.id FOR UPDATE SKIP LOCKED))
  AND t.token = ($2::uuid[])[{i}] AND t.attempt = ($3::integer[])[{i}]
  AND t.state = 2 AND t.reply_until <= {now} AND t.status_digest IS NULL
  AND t.reply_digest = ($6::bytea[])[{i}]
RETURNING t.id
)sql";

}  // namespace idempotency::internal::batched_sql
