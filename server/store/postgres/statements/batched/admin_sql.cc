#include "server/store/postgres/statements/batched/sql.h"

namespace idempotency::internal::batched_sql {

const std::string_view kAdmin = R"sql(
-- piece: listed
-- The columns of read_whole, without the reply.
SELECT {record}, NULL::bytea, NULL::bytea, {labels}, NULL::boolean,
  t.parent_namespace, t.parent_scope, t.parent_operation, t.parent_key
FROM records t

-- statement: list_namespace
-- The parameters of each are those of its range.
{listed}
{namespace_range}

-- statement: list_scope
{listed}
{scope_range}

-- statement: list_unknown
{listed}
{unknown_range}

-- statement: list_children
{listed}
{children_range}

-- piece: note_audit
INSERT INTO audit_log (at, actor, reason, action, forced, namespace, record_id, key_hmac, state,
  attempt)

-- piece: audit_hmac
-- AuditHmac() of t, between the two pads of HmacPadsOf().
sha256($4::bytea || sha256($3::bytea
  || int4send(octet_length(t.namespace)) || convert_to(t.namespace, 'UTF8')
  || int4send(octet_length(t.scope)) || convert_to(t.scope, 'UTF8')
  || int4send(octet_length(t.operation)) || convert_to(t.operation, 'UTF8')
  || int4send(octet_length(t.key)) || convert_to(t.key, 'UTF8')))

-- statement: resolve
-- $1 actor, $2 reason, $3 and $4 pads, $5 forced; $6 id, $7 token, $8 attempt, $9 state, as read;
-- $10 the new state, $11 the new token, $12 retention, $13 reply and $14 its digest, of no meaning
-- for a release. Returns expires_at.
WITH settled AS (
  UPDATE records t SET
    state = $10::integer, watched = false, open_for_long = false, token = $11::uuid,
    completed_at = CASE WHEN $10::integer = 2 THEN {now} END,
    reply = CASE WHEN $10::integer = 2 THEN $13::bytea END,
    reply_digest = CASE WHEN $10::integer = 2 THEN $14::bytea END,
    release_reason = CASE WHEN $10::integer = 3 THEN $2::text ELSE t.release_reason END,
    lease_until = CASE WHEN $10::integer = 3 THEN {now} ELSE t.lease_until END,
    expires_at = greatest(t.expires_at, {now} + $12::interval),
    tombstone_until = greatest(t.expires_at, {now} + $12::interval)
      + (t.tombstone_until - t.expires_at)
  WHERE t.id = $6::uuid AND t.token = $7::uuid AND t.attempt = $8::integer
    AND t.state = $9::integer AND t.state IN (1, 4)
    AND (t.state = 4 OR $5::boolean OR t.lease_until <= {now}) AND {remembered}
  RETURNING t.id, t.namespace, t.scope, t.operation, t.key, t.attempt, t.expires_at),
noted AS (
  {note_audit}
  SELECT {now}, $1::text, $2::text, $10::integer - 1, $5::boolean, t.namespace, t.id,
    {audit_hmac}, $9::integer, t.attempt FROM settled t)
SELECT t.expires_at FROM settled t

-- piece: readable
-- t is no damaged row, as far as SQL can decide it: of the fingerprints only whether the first one
-- is whole (EncodeFingerprints).
(t.state BETWEEN 1 AND 4 AND isfinite(t.created_at) AND isfinite(t.lease_until)
  AND isfinite(t.expires_at) AND isfinite(t.reply_until) IS NOT FALSE
  AND isfinite(t.tombstone_until) IS NOT FALSE AND isfinite(t.completed_at) IS NOT FALSE
  AND (t.labels IS NULL OR CASE WHEN jsonb_typeof(t.labels) = 'object'
    THEN NOT jsonb_path_exists(t.labels, '$.* ? (@.type() <> "string")') ELSE false END)
  AND CASE WHEN octet_length(t.fingerprints) < 5
    THEN octet_length(t.fingerprints) = 0 AND t.tombstone_until IS NOT NULL
    ELSE octet_length(t.fingerprints) >= 5 + get_byte(t.fingerprints, 4)
      - CASE WHEN get_byte(t.fingerprints, 4) >= 128 THEN 124 ELSE 0 END END)

-- piece: purge_visited
-- A step of a purge, behind the rows that it found: id, scope, whether they are of the target, and
-- the length of the reply. It visits as many as have replies that are small enough together, as in
-- {within_size}.
visited AS MATERIALIZED (
  SELECT w.* FROM (
    SELECT v.*, coalesce(sum(CASE WHEN v.wanted THEN v.bytes END) OVER (
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before
    FROM found v) w
  WHERE w.bytes_before < {removed_at_once_bytes}),
clock AS MATERIALIZED (SELECT {now} AS now)

-- piece: locked_columns
t.id, t.namespace, t.scope, t.operation, t.key, t.state, t.attempt, t.token, t.created_at,
t.require_recovery, t.lease_until

-- piece: locked_rows
-- The rows are locked first, without waiting, and judged as they are then. The statement continues
-- with those that are still of the target: a record may be granted, or started afresh, before it is
-- locked.
FROM records t WHERE t.id = ANY(ARRAY(SELECT v.id FROM visited v WHERE v.wanted))
ORDER BY t.id FOR UPDATE SKIP LOCKED

-- piece: purge_locked
{purge_visited},
locked AS MATERIALIZED (SELECT {locked_columns}, {readable} AS readable {locked_rows})

-- piece: purge_still_wanted
-- The rest of the step. $1 actor, $2 reason, $3 and $4 pads, $5 forced, $6 tombstone, zero for none.
-- Returns one row: how many were visited, the last one's scope and id, how many are of the target,
-- how many of those were locked and can be read, the ids of those that are purged, and whether it
-- stopped before the last row that it found.
chosen AS MATERIALIZED (
  SELECT t.id, t.namespace, t.scope, t.operation, t.key, t.state, t.attempt FROM still_wanted t
  WHERE t.readable AND ($5::boolean OR NOT {at_risk})),
removed AS (
  DELETE FROM records t
  WHERE t.id = ANY(ARRAY(SELECT c.id FROM chosen c WHERE $6::interval <= interval '0'))
  RETURNING t.id),
entombed AS (
  UPDATE records t SET {entomb},
    created_at = least(t.created_at, (SELECT k.now FROM clock k)),
    expires_at = least(t.expires_at, (SELECT k.now FROM clock k)),
    lease_until = least(t.lease_until, t.expires_at, (SELECT k.now FROM clock k)),
    tombstone_until = greatest(t.tombstone_until, (SELECT k.now FROM clock k) + $6::interval)
  WHERE t.id = ANY(ARRAY(SELECT c.id FROM chosen c WHERE $6::interval > interval '0'))
  RETURNING t.id),
gone AS MATERIALIZED (SELECT r.id FROM removed r UNION ALL SELECT e.id FROM entombed e),
cleared AS (
  DELETE FROM checkpoints p WHERE p.id = ANY(ARRAY(SELECT g.id FROM gone g))),
noted AS (
  {note_audit}
  SELECT (SELECT k.now FROM clock k), $1::text, $2::text,
    CASE WHEN $6::interval > interval '0' THEN 4 ELSE 3 END, $5::boolean, t.namespace, t.id,
    {audit_hmac}, t.state, t.attempt
  FROM chosen t WHERE t.id = ANY(ARRAY(SELECT g.id FROM gone g)) ORDER BY t.id)
SELECT count(*), (array_agg(v.scope))[count(*)], (array_agg(v.id))[count(*)],
  count(*) FILTER (WHERE v.wanted)
    - (SELECT count(*) FROM locked) + (SELECT count(*) FROM still_wanted),
  (SELECT count(*) FROM still_wanted t WHERE t.readable), ARRAY(SELECT g.id FROM gone g),
  count(*) < (SELECT count(*) FROM found)
FROM visited v

-- statement: purge_one
-- $1-$6 as in {purge_still_wanted}; $7 id, $8 token, $9 attempt, $10 state, as read. The request
-- names the four parts: what else is damaged does not matter.
WITH found AS MATERIALIZED (
  SELECT t.id, t.scope, true AS wanted, {at_risk} AS at_risk, octet_length(t.reply) AS bytes
  FROM records t
  WHERE t.id = $7::uuid AND t.token = $8::uuid AND t.attempt = $9::integer
    AND t.state = $10::integer),
{purge_visited},
locked AS MATERIALIZED (SELECT {locked_columns}, true AS readable {locked_rows}),
still_wanted AS MATERIALIZED (
  SELECT t.* FROM locked t
  WHERE t.token = $8::uuid AND t.attempt = $9::integer AND t.state = $10::integer),
{purge_still_wanted}

-- statement: purge_scope
-- $1-$6 as in {purge_still_wanted}, then those of {scope_range}.
WITH found AS MATERIALIZED (
  SELECT t.id, t.scope, true AS wanted, {at_risk} AS at_risk, octet_length(t.reply) AS bytes
  FROM records t
  {scope_range +6}),
{purge_locked},
still_wanted AS MATERIALIZED (SELECT t.* FROM locked t),
{purge_still_wanted}

-- statement: purge_namespace
-- $1-$6 as in {purge_still_wanted}, then those of {namespace_range}; $11 the end of created_at.
WITH found AS MATERIALIZED (
  SELECT t.id, t.scope, t.created_at < $11::timestamptz AS wanted, {at_risk} AS at_risk,
    octet_length(t.reply) AS bytes
  FROM records t
  {namespace_range +6}),
{purge_locked},
still_wanted AS MATERIALIZED (SELECT t.* FROM locked t WHERE t.created_at < $11::timestamptz),
{purge_still_wanted}

-- piece: count_visited
-- The same columns for a purge that only counts. $1 whether it is forced.
SELECT count(*), (array_agg(v.scope))[count(*)], (array_agg(v.id))[count(*)],
  count(*) FILTER (WHERE v.wanted), count(*) FILTER (WHERE v.wanted AND v.readable),
  array_agg(v.id) FILTER (WHERE v.wanted AND v.readable AND ($1::boolean OR NOT v.at_risk)), false
FROM visited v

-- statement: count_scope
-- $1 as in {count_visited}, then those of {scope_range}.
WITH visited AS MATERIALIZED (
  SELECT t.id, t.scope, true AS wanted, {at_risk} AS at_risk, {readable} AS readable
  FROM records t
  {scope_range +1})
{count_visited}

-- statement: count_namespace
-- $1 as in {count_visited}, then those of {namespace_range}; $6 the end of created_at.
WITH visited AS MATERIALIZED (
  SELECT t.id, t.scope, t.created_at < $6::timestamptz AS wanted, {at_risk} AS at_risk,
    {readable} AS readable
  FROM records t
  {namespace_range +1})
{count_visited}

-- statement: end_unknown
-- A step of EndUnknown. $1-$3 as in {unknown_range}, $4 how long a record may be UNKNOWN.
-- The rows are locked without waiting, and judged again as they are then. Returns one row: how many
-- were read, the last one's id, how many were ended.
WITH visited AS MATERIALIZED (
  SELECT t.id, t.state = 4 AND t.lease_until <= {now} - $4::interval AS is_over FROM records t
  {unknown_range}),
clock AS MATERIALIZED (SELECT {now} AS now),
ended AS (
  UPDATE records t SET {entomb},
    expires_at = least(t.expires_at, (SELECT k.now FROM clock k)),
    lease_until = least(t.lease_until, t.expires_at, (SELECT k.now FROM clock k)),
    tombstone_until = greatest(t.tombstone_until,
      CASE WHEN t.expires_at > (SELECT k.now FROM clock k) THEN t.expires_at
        ELSE (SELECT k.now FROM clock k) + (t.expires_at - t.created_at) END)
  WHERE t.id = ANY(ARRAY(
      SELECT s.id FROM records s
      WHERE s.id = ANY(ARRAY(SELECT v.id FROM visited v WHERE v.is_over))
      ORDER BY s.id FOR UPDATE SKIP LOCKED))
    AND t.state = 4 AND t.lease_until <= {now} - $4::interval
  RETURNING t.id),
cleared AS (
  DELETE FROM checkpoints p WHERE p.id = ANY(ARRAY(SELECT e.id FROM ended e)))
SELECT count(*), (array_agg(v.id))[count(*)], (SELECT count(*) FROM ended) FROM visited v

-- statement: measure_usage
-- $1-$4 as in {namespace_range}. Returns one row: how many rows were read, scope and id of the last
-- one, the number of live ones, the bytes of their replies. The length of a reply is known without
-- reading it.
WITH visited AS MATERIALIZED (
  SELECT t.scope, t.id, {remembered} AS live, octet_length(t.reply) AS reply_bytes
  FROM records t
  {namespace_range})
SELECT count(*), (array_agg(v.scope))[count(*)], (array_agg(v.id))[count(*)],
  count(*) FILTER (WHERE v.live), coalesce(sum(v.reply_bytes) FILTER (WHERE v.live), 0)::bigint
FROM visited v

-- statement: read_audit
-- $1 namespace, $2 the sequence to continue after, $3 how many.
SELECT a.sequence, a.at, a.actor, a.reason, a.action, a.forced, a.namespace, a.record_id,
  a.key_hmac, a.state, a.attempt, a.records
FROM audit_log a WHERE a.namespace = $1::text AND a.sequence > $2::bigint
ORDER BY a.sequence LIMIT $3::integer

-- statement: read_newest_audit
-- $1 namespace, $2 the sequence to continue before, $3 how many.
SELECT a.sequence, a.at, a.actor, a.reason, a.action, a.forced, a.namespace, a.record_id,
  a.key_hmac, a.state, a.attempt, a.records
FROM audit_log a WHERE a.namespace = $1::text AND a.sequence < $2::bigint
ORDER BY a.sequence DESC LIMIT $3::integer

-- statement: read_audit_of_record
-- $1-$3 as in read_audit, $4 the record, $5 whether newest first. A record has few entries; apart,
-- so that none of the namespace's others are read for the order.
WITH found AS MATERIALIZED (
  SELECT a.* FROM audit_log a WHERE a.record_id = $4::uuid)
SELECT a.sequence, a.at, a.actor, a.reason, a.action, a.forced, a.namespace, a.record_id,
  a.key_hmac, a.state, a.attempt, a.records
FROM found a WHERE a.namespace = $1::text
  AND CASE WHEN $5::boolean THEN a.sequence < $2::bigint ELSE a.sequence > $2::bigint END
ORDER BY CASE WHEN $5::boolean THEN -a.sequence ELSE a.sequence END LIMIT $3::integer
)sql";

}  // namespace idempotency::internal::batched_sql
