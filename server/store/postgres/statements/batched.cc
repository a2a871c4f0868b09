#include "server/store/postgres/statements/batched.h"

#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "core/absl_view.h"
#include "grpc_idempotency/limits.h"
#include "migrations/migrations.h"
#include "server/store/postgres/statements/walks.h"

namespace idempotency::internal {
namespace {

// Placeholders for recurring pieces of SQL:
//   {now}         the store's clock, read again at each use
//   {i}           the place of row t in the batch
//   {o}           the same, where $1 is sorted: a binary search, once per column
//   {remembered}  t is not forgotten (design: "Words")
//   {gone}        t is forgotten, and its tombstone is over
//   {sweepable}   the same for so long that no step of the clock reverts it
//   {margin}      that duration (limits::kClockStepMargin)
//   {is_open_for_long}  t is reserved, under a live lease, and not recently
//   {p}           the place of row t in the batch whose ids are $5
//   {held}        t is the record of $1 to $6 (ids, tokens, the four parts), and its
//                 token holds it; the ids are sorted
//   {confirmed}   the row t that was read is on every node that commits must reach
//   {entomb}      the columns that a tombstone loses
//   {at_risk}     once t is forgotten, its operation may run twice (NeedsForce)
//   {audit_hmac}  AuditHmac() of t
//   {record}      the columns of every read, in the order of record_column
// States are numbers: 1 RESERVED, 2 COMPLETED, 3 RELEASED, 4 UNKNOWN.

constexpr std::string_view kRemembered =
    "(t.expires_at > {now} OR t.state = 4 OR (t.state = 1 AND t.require_recovery))";

constexpr std::string_view kGone =
    "(NOT {remembered} AND (t.tombstone_until IS NULL OR t.tombstone_until <= {now}))";

constexpr std::string_view kSweepable =
    "(NOT {remembered} AND greatest(t.expires_at, t.tombstone_until) <= {now} - {margin})";

constexpr std::string_view kIsOpenForLong =
    "(t.state = 1 AND t.lease_until > {now} AND t.created_at <= {now} - interval '1 minute')";

constexpr std::string_view kRecord =
    "t.id, t.namespace, t.scope, t.operation, t.key, t.state, t.require_recovery, t.recovering,"
    " t.attempt, t.token, t.request_token, t.created_at, t.lease_until, t.expires_at,"
    " t.completed_at, t.fingerprints, t.reply_digest, t.reply_until, t.tombstone_until,"
    " t.status_digest, t.release_reason, {now}";

// Rows of each kind that an inspection reads: it runs every second, in every
// process.
constexpr int kInspectedRows = static_cast<int>(StoreGauges::kMaxCountedUnknown);

// The memory of the sweep, except for the last reply.
constexpr std::size_t kDroppedAtOnceBytes = 4 * 1024 * 1024;

// NULL once those before it reach the limit. Lengths are known without reading the
// replies.
constexpr std::string_view kReply =
    "CASE WHEN coalesce(sum(octet_length(t.reply)) OVER ("
    "ORDER BY t.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) < {weight}"
    " THEN t.reply END";

// Most records have none; then nothing is unpacked.
constexpr std::string_view kLabels =
    "CASE WHEN t.labels IS NOT NULL"
    " THEN ARRAY(SELECT ARRAY[l.key, l.value] FROM jsonb_each_text(t.labels) l) END";

// An answer about a record must be as durable as a new promise: a replayed reply, but
// also a running attempt, or a token that no longer holds. A row can be visible although
// its commit's wait for the synchronous standby was cancelled (the session was cancelled
// or ended, the server crashed), and then a failover reverts it. So where commits wait
// for a standby, a statement that finds a row writes its own message to the log, and its
// commit waits until everything that it read is on the standby too. Once per statement,
// and only if there is a row.
constexpr std::string_view kConfirmed =
    "(SELECT pg_logical_emit_message(true, 'idempotency', '') IS NOT NULL"
    " WHERE current_setting('synchronous_standby_names') <> '')";

// A commit after it waits neither for the disk nor for a standby. Within the statement, so that it
// needs no transaction of several; until its end, so that no later statement of the session is
// affected. Once, and only if there is a row.
constexpr std::string_view kRelaxed =
    "(SELECT set_config('synchronous_commit', 'off', true) IS NOT NULL)";

constexpr std::string_view kHeld =
    "t.id = ANY($1::uuid[]) AND t.token = ($2::uuid[])[{o}]"
    " AND t.namespace = ($3::text[])[{o}] AND t.scope = ($4::text[])[{o}]"
    " AND t.operation = ($5::text[])[{o}] AND t.key = ($6::text[])[{o}]";

// A batch as rows. Each array that unnest() opens costs a few microseconds for
// any length; a subscript costs a little for every element before it. So the one
// form is better for many operations, the other for few (measured: 230 against
// 172 us of the server's a cycle for one, 19 against 22 for each of 64).
constexpr std::string_view kManyOperations = R"sql(
  SELECT * FROM unnest(
    $1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::interval[],
    $8::bytea[], $9::boolean[], $10::uuid[], $11::uuid[], $12::interval[], $13::interval[],
    $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::interval[],
    $20::interval[])
  AS v(id, namespace, scope, operation, key, made_at, key_window,
    fingerprints, require_recovery, token, request_token, lease, retention,
    parent_namespace, parent_scope, parent_operation, parent_key, labels,
    reply_retention, tombstone)
  ORDER BY v.id)sql";
constexpr std::string_view kFewOperations = R"sql(
  SELECT v.id, ($2::text[])[v.i] AS namespace, ($3::text[])[v.i] AS scope,
    ($4::text[])[v.i] AS operation, ($5::text[])[v.i] AS key, ($6::timestamptz[])[v.i] AS made_at,
    ($7::interval[])[v.i] AS key_window, ($8::bytea[])[v.i] AS fingerprints,
    ($9::boolean[])[v.i] AS require_recovery, ($10::uuid[])[v.i] AS token,
    ($11::uuid[])[v.i] AS request_token, ($12::interval[])[v.i] AS lease,
    ($13::interval[])[v.i] AS retention, ($14::text[])[v.i] AS parent_namespace,
    ($15::text[])[v.i] AS parent_scope, ($16::text[])[v.i] AS parent_operation,
    ($17::text[])[v.i] AS parent_key, ($18::text[])[v.i] AS labels,
    ($19::interval[])[v.i] AS reply_retention, ($20::interval[])[v.i] AS tombstone
  FROM unnest($1::uuid[]) WITH ORDINALITY AS v(id, i)
  ORDER BY v.id)sql";

// One operation, the parameters without arrays: an array costs the server a microsecond or two, and
// there are twenty. A subquery, so that the columns have the same names.
constexpr std::string_view kOneOperation = R"sql(
  SELECT $1::uuid AS id, $2::text AS namespace, $3::text AS scope, $4::text AS operation,
    $5::text AS key, $6::timestamptz AS made_at, $7::interval AS key_window,
    $8::bytea AS fingerprints, $9::boolean AS require_recovery, $10::uuid AS token,
    $11::uuid AS request_token, $12::interval AS lease, $13::interval AS retention,
    $14::text AS parent_namespace, $15::text AS parent_scope, $16::text AS parent_operation,
    $17::text AS parent_key, $18::text AS labels, $19::interval AS reply_retention,
    $20::interval AS tombstone)sql";

// $1 ids, $2-$5 the four parts, $6 when the key was made or NULL, $7 its window,
// $8 fingerprints, $9 require_recovery, $10 tokens, $11 request tokens or NULL,
// $12 leases, $13 retentions, $14-$17 the parent's parts or NULL, $18 labels or
// NULL, $19 the replies' retentions or NULL, $20 tombstones or NULL. Returns id, created_at,
// lease_until, expires_at, now for those inserted; those missing exist, or their key is outside the
// window.
//
// The clock is read per row, at the row's turn: the WHERE inside c ties it to
// u, so that it can neither be computed once nor before the sort.
constexpr std::string_view kInsert = R"sql(
INSERT INTO records AS t (
  id, namespace, scope, operation, key, state, require_recovery, attempt, token, request_token,
  created_at, lease_until, expires_at, fingerprints,
  parent_namespace, parent_scope, parent_operation, parent_key, labels,
  reply_until, tombstone_until)
SELECT
  u.id, u.namespace, u.scope, u.operation, u.key, 1, u.require_recovery, 1, u.token, u.request_token,
  c.now, least(c.now + u.lease, e.expires_at), e.expires_at, u.fingerprints,
  u.parent_namespace, u.parent_scope, u.parent_operation, u.parent_key, u.labels::jsonb,
  c.now + u.reply_retention, e.expires_at + u.tombstone
FROM ({operations}) u
CROSS JOIN LATERAL (SELECT {now} AS now WHERE u.id IS NOT NULL) c
CROSS JOIN LATERAL (
  SELECT CASE WHEN u.made_at IS NULL THEN c.now + u.retention
    ELSE greatest(c.now, u.made_at) + greatest(u.retention, u.key_window) END AS expires_at) e
WHERE u.made_at IS NULL
  OR (c.now < u.made_at + u.key_window AND u.made_at <= c.now + {ahead})
ON CONFLICT (id) DO NOTHING
RETURNING t.id, t.created_at, t.lease_until, t.expires_at, {now}
)sql";

// $1 ids. A completed record's checkpoint is no longer needed.
constexpr std::string_view kReadToReserve = R"sql(
SELECT {record}, {reply},
  CASE WHEN t.state <> 2 THEN (SELECT p.checkpoint FROM checkpoints p
    WHERE p.id = t.id AND p.record_created_at = t.created_at) END,
  {labels}, {confirmed}
FROM records t WHERE t.id = ANY($1::uuid[])
)sql";

constexpr std::string_view kReadClock = "SELECT {now}";

// A forgotten record starts afresh in its own row, so that reservations need no right to delete.
// $1-$20 as in {insert}; $21 tokens, $22 attempts, as read. Returns what {insert} returns. The
// checkpoint keeps the created_at of the life before, under which nobody reads it.
constexpr std::string_view kStartAfresh = R"sql(
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
)sql";

// $1 ids; $2 tokens, $3 attempts, $4 states, $5 leases' ends, as read (any
// heartbeat in between moves the last one); $6 new tokens, $7 request tokens or
// NULL, $8 leases, $9 retentions for recovery grants, else NULL. Returns id,
// lease_until, expires_at, now.
constexpr std::string_view kGrant = R"sql(
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
)sql";

// $1 ids, $2 tokens, $3 attempts, as read; $4 leases. Returns id, lease_until,
// expires_at, now.
constexpr std::string_view kRenewLease = R"sql(
UPDATE records t SET lease_until = least({now} + ($4::interval[])[{i}], t.expires_at)
WHERE t.id = ANY($1::uuid[]) AND t.token = ($2::uuid[])[{i}] AND t.attempt = ($3::integer[])[{i}]
  AND t.state = 1 AND t.lease_until <= {now} AND {remembered}
RETURNING t.id, t.lease_until, t.expires_at, {now}
)sql";

// $1 ids, $2 tokens, $3 attempts, as read. Returns id, lease_until.
constexpr std::string_view kMarkUnknown = R"sql(
UPDATE records t SET state = 4, watched = true, open_for_long = false, release_reason = NULL
WHERE t.id = ANY($1::uuid[]) AND t.token = ($2::uuid[])[{i}] AND t.attempt = ($3::integer[])[{i}]
  AND t.state = 1 AND t.require_recovery AND t.lease_until <= {now}
RETURNING t.id, t.lease_until
)sql";

// $1-$6 as in {held}, $7 replies, $8 their digests. Returns id, completed_at,
// expires_at, lease_until.
constexpr std::string_view kComplete = R"sql(
UPDATE records t SET
  state = 2, watched = false, open_for_long = false, completed_at = {now},
  reply = ($7::bytea[])[{o}], reply_digest = ($8::bytea[])[{o}]
WHERE {held}
  AND t.state IN (1, 4) AND t.expires_at > {now}
RETURNING t.id, t.completed_at, t.expires_at, t.lease_until
)sql";

// The same for one, its parameters without arrays.
constexpr std::string_view kCompleteOne = R"sql(
UPDATE records t SET
  state = 2, watched = false, open_for_long = false, completed_at = {now},
  reply = $7::bytea, reply_digest = $8::bytea
WHERE t.id = $1::uuid AND t.token = $2::uuid AND t.namespace = $3::text AND t.scope = $4::text
  AND t.operation = $5::text AND t.key = $6::text
  AND t.state IN (1, 4) AND t.expires_at > {now}
RETURNING t.id, t.completed_at, t.expires_at, t.lease_until
)sql";

// The rows that {complete} returns, in its columns, then those that {insert}
// returns, behind them. In this order too: rows are locked before keys are
// inserted in every statement, so that none waits for another crosswise.
constexpr std::string_view kCompleteAndInsert = R"sql(
WITH completed (id, completed_at, expires_at, lease_until) AS ({complete}),
inserted (id, created_at, lease_until, expires_at, now) AS ({insert})
SELECT c.id, c.completed_at, c.expires_at, c.lease_until,
  NULL::uuid, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz
FROM completed c
UNION ALL
SELECT NULL, NULL, NULL, NULL, i.id, i.created_at, i.lease_until, i.expires_at, i.now
FROM inserted i
)sql";

// $1-$6 as in {held}, $7 states to take, $8 reasons, $9 pauses. Returns id.
constexpr std::string_view kRelease = R"sql(
UPDATE records t SET
  state = ($7::smallint[])[{o}], watched = ($7::smallint[])[{o}] = 4, open_for_long = false,
  release_reason = ($8::text[])[{o}],
  lease_until = least({now} + ($9::interval[])[{o}], t.expires_at)
WHERE {held} AND t.state = 1 AND {remembered}
RETURNING t.id
)sql";

// $1-$6 as in {held}, $7 leases. Returns id, lease_until, now.
constexpr std::string_view kExtend = R"sql(
UPDATE records t SET
  lease_until = greatest(t.lease_until, least({now} + ($7::interval[])[{o}], t.expires_at))
WHERE {held} AND t.state = 1
  AND t.expires_at > {now}
RETURNING t.id, t.lease_until, {now}
)sql";

// As above; $8 checkpoints. One statement, so that neither is kept alone.
constexpr std::string_view kExtendWithCheckpoint = R"sql(
WITH extended AS (
  UPDATE records t SET
    lease_until = greatest(t.lease_until, least({now} + ($7::interval[])[{o}], t.expires_at))
  WHERE {held} AND t.state = 1
    AND t.expires_at > {now}
  RETURNING t.id, t.created_at, t.lease_until, {now} AS now),
stored AS (
  INSERT INTO checkpoints (id, record_created_at, checkpoint)
  SELECT t.id, t.created_at, ($8::bytea[])[{o}] FROM extended t ORDER BY t.id
  ON CONFLICT (id) DO UPDATE
    SET record_created_at = excluded.record_created_at, checkpoint = excluded.checkpoint)
SELECT e.id, e.lease_until, e.now FROM extended e
)sql";

// $1 ids.
constexpr std::string_view kReadToSettle = R"sql(
SELECT {record}, {confirmed} FROM records t WHERE t.id = ANY($1::uuid[])
)sql";

// $1 ids. The server's current data, confirmed or not: operators read records
// also while a standby is unavailable.
constexpr std::string_view kReadWhole = R"sql(
SELECT {record}, {reply}, NULL::bytea, {labels}, NULL::boolean,
  t.parent_namespace, t.parent_scope, t.parent_operation, t.parent_key
FROM records t WHERE t.id = ANY($1::uuid[])
)sql";

// The same for an answer to a caller of a guarded method.
constexpr std::string_view kReadWholeConfirmed = R"sql(
SELECT {record}, {reply}, NULL::bytea, {labels}, {confirmed},
  t.parent_namespace, t.parent_scope, t.parent_operation, t.parent_key, t.release_reason
FROM records t WHERE t.id = ANY($1::uuid[])
)sql";

// The result of a visit for a row:
//   want   1 remove it, 2 reduce it to its tombstone, 3 mark it UNKNOWN, 4 drop
//          its reply's content; else NULL
//   watch  its open_for_long is wrong: it is true for a reservation that has been open
//          for over a minute, under a live lease
//   due    when a row with neither needs the sweep, NULL for never
constexpr std::string_view kVisited = R"sql(
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
          CASE WHEN t.open_for_long THEN t.lease_until ELSE t.created_at + interval '1 minute' END
        END)
      WHEN t.state = 2 AND t.status_digest IS NULL THEN least(t.expires_at + {margin}, t.reply_until)
      ELSE t.expires_at + {margin}
    END AS due
  FROM records t WHERE (SELECT l.alone FROM sweep_lock l))sql";

// What a tombstone is without.
constexpr std::string_view kEntomb = R"sql(
    state = 3, watched = false, open_for_long = false, completed_at = NULL, fingerprints = '',
    request_token = NULL, reply = NULL, reply_digest = NULL, status_digest = NULL,
    reply_until = NULL, labels = NULL,
    release_reason = NULL, parent_namespace = NULL, parent_scope = NULL, parent_operation = NULL,
    parent_key = NULL)sql";

// A step of the sweep, {visit} being how it walks: one statement, which reads the
// next records without locking them, then locks and changes those that need it. So a
// step holds locks only while the server works on it: a sweeper that is stopped, or
// whose node is lost, cannot leave any behind. One replica sweeps a schema at a time.
//
// The predicates are repeated outside: a record may be reserved again between the read
// and the lock. Locked rows are busy: the sweep does not wait for them. A row changes
// once per statement, so rows with another action are not watched.
//
// Returns one row: whether no other replica sweeps; how many were read, the last one's
// created_at and id, now, the first time at which a row without an action will need
// one, how many were removed, reduced to their tombstone, marked UNKNOWN, and the ids
// whose replies are over.
constexpr std::string_view kSweep = R"sql(
WITH sweep_lock AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock(
    hashtextextended('idempotency sweep ' || current_schema, 0)) AS alone),
visited AS MATERIALIZED ({visit}),
removed AS (
  DELETE FROM records t
  WHERE t.id = ANY({wanting 1})
    AND {sweepable}
  RETURNING t.id),
entombed AS (
  UPDATE records t SET {entomb}
  WHERE t.id = ANY({wanting 2})
    AND NOT {remembered} AND t.expires_at <= {now} - {margin}
    AND t.tombstone_until IS NOT NULL AND octet_length(t.fingerprints) > 0
  RETURNING t.id),
lapsed AS (
  UPDATE records t SET state = 4, watched = true, open_for_long = false, release_reason = NULL
  WHERE t.id = ANY({wanting 3})
    AND t.state = 1 AND t.require_recovery AND t.lease_until <= {now}
  RETURNING t.id),
watched AS (
  UPDATE records t SET open_for_long = {is_open_for_long}, watched = t.state = 4
  WHERE t.id = ANY({to_watch})),
cleared AS (
  DELETE FROM checkpoints p WHERE p.id = ANY(ARRAY(
    SELECT r.id FROM removed r UNION ALL SELECT e.id FROM entombed e)))
SELECT (SELECT l.alone FROM sweep_lock l),
  count(*), (array_agg(v.created_at))[count(*)], (array_agg(v.id))[count(*)], {now},
  min(v.due) FILTER (WHERE v.want IS NULL AND NOT v.watch),
  (SELECT count(*) FROM removed), (SELECT count(*) FROM entombed), (SELECT count(*) FROM lapsed),
  array_agg(v.id) FILTER (WHERE v.want = 4),
  coalesce(bool_or(v.want > 1 OR v.watch), false)
FROM visited v
)sql";

// Rows among those visited, locked; never waits for one.
constexpr std::string_view kVisitedWhere =
    "ARRAY(SELECT s.id FROM records s WHERE s.id = ANY(ARRAY(SELECT v.id FROM visited v"
    " WHERE {which})) ORDER BY s.id FOR UPDATE SKIP LOCKED)";

// $1 the id to continue after, $2 the last one at most, $3 how many.
constexpr std::string_view kVisitOrdered = R"sql({visited}
  AND t.id > $1::uuid AND t.id <= $2::uuid AND t.id < '80000000-0000-0000-0000-000000000000'
  ORDER BY t.id LIMIT $3::integer)sql";

// $1 and $2 created_at and id to continue after, $3 and $4 the last ones at
// most, $5 how many.
constexpr std::string_view kVisitHashed = R"sql({visited}
  AND t.id >= '80000000-0000-0000-0000-000000000000'
    AND (t.created_at, t.id) > ($1::timestamptz, $2::uuid)
    AND (t.created_at, t.id) <= ($3::timestamptz, $4::uuid)
  ORDER BY t.created_at, t.id LIMIT $5::integer)sql";

// $1 ids. As many replies as are held in memory at a time, or one that is larger.
constexpr std::string_view kReadToDrop = R"sql(
SELECT t.id, t.token, t.attempt, t.reply_digest, {few_replies}
FROM records t WHERE t.id = ANY($1::uuid[]) AND t.state = 2 AND t.status_digest IS NULL
)sql";

// $1 ids, $2 tokens, $3 attempts, as read; $4 the remaining parts of the
// replies, $5 their digests; $6 the digests of the replies, as read: one that was
// sealed anew meanwhile is another. Returns id. A row that is locked is left to
// the next pass.
constexpr std::string_view kDropReplies = R"sql(
UPDATE records t SET reply = ($4::bytea[])[{i}], status_digest = ($5::bytea[])[{i}]
WHERE t.id = ANY(ARRAY(
    SELECT s.id FROM records s WHERE s.id = ANY($1::uuid[]) ORDER BY s.id FOR UPDATE SKIP LOCKED))
  AND t.token = ($2::uuid[])[{i}] AND t.attempt = ($3::integer[])[{i}]
  AND t.state = 2 AND t.reply_until <= {now} AND t.status_digest IS NULL
  AND t.reply_digest = ($6::bytea[])[{i}]
RETURNING t.id
)sql";

// $1 ids, sorted. Which of these rows other sessions have locked. The strength is that of
// the updates, so that a lock which does not block them does not count.
constexpr std::string_view kFindLocked = R"sql(
SELECT t.id FROM records t
WHERE t.id = ANY($1::uuid[]) AND t.id <> ALL(ARRAY(
    SELECT s.id FROM records s WHERE s.id = ANY($1::uuid[])
    ORDER BY s.id FOR NO KEY UPDATE SKIP LOCKED))
)sql";

// $1 milliseconds. Takes the lock that excludes downgrades; returns whether it was taken,
// and how many statements of this role and application run for longer than that.
constexpr std::string_view kBeginSession = R"sql(
SELECT pg_try_advisory_lock_shared({serve_lock}),
  (SELECT count(*) FROM pg_stat_activity a
   WHERE a.datname = current_database() AND a.usename = current_user
     AND a.application_name = current_setting('application_name')
     AND a.state = 'active'
     AND a.query_start < clock_timestamp() - $1::integer * interval '1 millisecond')
)sql";

// Returns when the first migration was applied or NULL, whether all of this program's
// are applied, and whether there is a newer one that it may not serve.
constexpr std::string_view kReadSchema = R"sql(
SELECT min(m.applied_at) FILTER (WHERE m.version = 1),
  count(*) FILTER (WHERE m.version <= {known}) = {known},
  coalesce(bool_or(m.version > {known}
    AND coalesce((to_jsonb(m) ->> 'serves_from')::integer, m.version) > {known}), false)
FROM schema_migrations m WHERE m.version > 0
)sql";

// A write that changes nothing of any record and commits as they do.
constexpr std::string_view kProbeCommit = R"sql(
INSERT INTO commit_probe (id, written_at) VALUES (true, {now})
ON CONFLICT (id) DO UPDATE SET written_at = excluded.written_at
)sql";

// Returns now, created_at of the oldest record that is RESERVED under a live lease or
// NULL, how many are UNKNOWN. Reads a bounded number of rows, at any table size:
// reservations that are open for long are marked, the others are among the newest.
constexpr std::string_view kInspect = R"sql(
SELECT {now},
  least(
    (SELECT min(n.created_at) FROM (
       SELECT t.created_at, t.state, t.lease_until FROM records t WHERE t.open_for_long
       ORDER BY t.created_at LIMIT {inspected}) n WHERE n.state = 1 AND n.lease_until > {now}),
    (SELECT min(n.created_at) FROM (
       SELECT t.created_at, t.state, t.lease_until FROM records t
       WHERE t.id < '80000000-0000-0000-0000-000000000000'
       ORDER BY t.id DESC LIMIT {inspected}) n WHERE n.state = 1 AND n.lease_until > {now}),
    (SELECT min(n.created_at) FROM (
       SELECT t.created_at, t.state, t.lease_until FROM records t
       WHERE t.id >= '80000000-0000-0000-0000-000000000000'
       ORDER BY t.created_at DESC, t.id DESC LIMIT {inspected}) n
     WHERE n.state = 1 AND n.lease_until > {now})),
  (SELECT count(*) FILTER (WHERE n.state = 4) FROM (
     SELECT t.state FROM records t WHERE t.watched ORDER BY t.created_at LIMIT {inspected}) n)
)sql";

// The columns of read_whole, without the reply.
constexpr std::string_view kListed =
    "SELECT {record}, NULL::bytea, NULL::bytea, {labels}, NULL::boolean,"
    " t.parent_namespace, t.parent_scope, t.parent_operation, t.parent_key FROM records t ";

// A step of Store::EndUnknown. $1 to $3 as kWalkUnknown, $4 how long a record may be UNKNOWN. The
// rows are locked without waiting, and judged again as they are then. Returns one row: how many
// were read, the last one's id, how many were ended.
constexpr std::string_view kEndUnknown = R"sql(
WITH visited AS MATERIALIZED (
  SELECT t.id, t.state = 4 AND t.lease_until <= {now} - $4::interval AS is_over FROM records t
  WHERE t.watched::integer = 1
    AND (t.namespace, t.id) > ($1::text, $2::uuid) AND t.namespace <= $1::text
  ORDER BY t.namespace, t.id LIMIT $3::integer),
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
)sql";

// AuditHmac() of row {row}, between the two pads of HmacPadsOf().
constexpr std::string_view kAuditHmac =
    "sha256($4::bytea || sha256($3::bytea"
    " || int4send(octet_length({row}.namespace)) || convert_to({row}.namespace, 'UTF8')"
    " || int4send(octet_length({row}.scope)) || convert_to({row}.scope, 'UTF8')"
    " || int4send(octet_length({row}.operation)) || convert_to({row}.operation, 'UTF8')"
    " || int4send(octet_length({row}.key)) || convert_to({row}.key, 'UTF8')))";

constexpr std::string_view kNoteAudit = R"sql(
  INSERT INTO audit_log (at, actor, reason, action, forced, namespace, record_id, key_hmac, state,
    attempt))sql";

// $1 actor, $2 reason, $3 and $4 pads, $5 forced; $6 id, $7 token, $8 attempt, $9 state, as read;
// $10 the new state, $11 the new token, $12 retention, $13 reply and $14 its digest, of no meaning
// for a release. Returns expires_at.
constexpr std::string_view kResolve = R"sql(
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
noted AS ({note_audit}
  SELECT {now}, $1::text, $2::text, $10::integer - 1, $5::boolean, t.namespace, t.id,
    {audit_hmac}, $9::integer, t.attempt FROM settled t)
SELECT t.expires_at FROM settled t
)sql";

// What becomes of a visited row without force.
constexpr std::string_view kAtRisk =
    "(t.state = 4 OR (t.state = 1 AND (t.require_recovery OR t.lease_until > {now})))";

// A step of a purge, {visit} being its rows: id, scope, and whether they are of the target. The
// rows are locked first, without waiting, and judged as they are then. $1 actor, $2 reason, $3 and
// $4 pads, $5 forced, $6 tombstone, zero for none. Returns one row: how many were visited, the
// last one's scope and id, how many are of the target, how many of those were locked, and the ids
// of those that are purged.
constexpr std::string_view kPurge = R"sql(
WITH visited AS MATERIALIZED ({visit}),
clock AS MATERIALIZED (SELECT {now} AS now),
locked AS MATERIALIZED (
  SELECT t.id, t.namespace, t.scope, t.operation, t.key, t.state, t.attempt, t.require_recovery,
    t.lease_until
  FROM records t WHERE t.id = ANY(ARRAY(SELECT v.id FROM visited v WHERE v.wanted))
  ORDER BY t.id FOR UPDATE SKIP LOCKED),
chosen AS MATERIALIZED (
  SELECT t.id, t.namespace, t.scope, t.operation, t.key, t.state, t.attempt FROM locked t
  WHERE $5::boolean OR NOT {at_risk}),
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
noted AS ({note_audit}
  SELECT (SELECT k.now FROM clock k), $1::text, $2::text,
    CASE WHEN $6::interval > interval '0' THEN 4 ELSE 3 END, $5::boolean, t.namespace, t.id,
    {audit_hmac}, t.state, t.attempt
  FROM chosen t WHERE t.id = ANY(ARRAY(SELECT g.id FROM gone g)) ORDER BY t.id)
SELECT count(*), (array_agg(v.scope))[count(*)], (array_agg(v.id))[count(*)],
  count(*) FILTER (WHERE v.wanted), (SELECT count(*) FROM locked),
  ARRAY(SELECT g.id FROM gone g)
FROM visited v
)sql";

// The same columns for a purge that only counts. $1 whether it is forced.
constexpr std::string_view kCount = R"sql(
WITH visited AS MATERIALIZED ({visit})
SELECT count(*), (array_agg(v.scope))[count(*)], (array_agg(v.id))[count(*)],
  count(*) FILTER (WHERE v.wanted), count(*) FILTER (WHERE v.wanted),
  array_agg(v.id) FILTER (WHERE v.wanted AND ($1::boolean OR NOT v.at_risk))
FROM visited v
)sql";

constexpr std::string_view kVisitOf =
    "SELECT t.id, t.scope, {wanted} AS wanted, {at_risk} AS at_risk FROM records t {walk}";

// Behind the parameters of kPurge: $7 id, $8 token, $9 attempt, $10 state, as read.
constexpr std::string_view kVisitOne =
    "WHERE t.id = $7::uuid AND t.token = $8::uuid AND t.attempt = $9::integer "
    "AND t.state = $10::integer";

// $1 to $4 as kWalkNamespace. Returns one row: how many rows were read, scope and id of the last
// one, the number of live ones, the bytes of their replies. The length of a reply is known without
// reading it.
constexpr std::string_view kMeasureUsage = R"sql(
WITH visited AS MATERIALIZED (
  SELECT t.scope, t.id, {remembered} AS live, octet_length(t.reply) AS reply_bytes
  FROM records t {walk})
SELECT count(*), (array_agg(v.scope))[count(*)], (array_agg(v.id))[count(*)],
  count(*) FILTER (WHERE v.live), coalesce(sum(v.reply_bytes) FILTER (WHERE v.live), 0)::bigint
FROM visited v
)sql";

// $1 to $4 as kWalkNamespace. What may be sealed of the next rows, forgotten or not. The reply is
// NULL once those before it reach the limit. No column of {record}: a reply is read without the
// rest.
constexpr std::string_view kReadContents = R"sql(
SELECT t.id, t.namespace, t.scope, t.operation, t.key, t.token, t.fingerprints, t.state,
  t.reply_digest, t.status_digest,
  CASE WHEN coalesce(sum(octet_length(t.reply)) OVER (
      ORDER BY t.scope, t.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) < {step_replies}
    THEN t.reply END,
  (SELECT p.checkpoint FROM checkpoints p WHERE p.id = t.id)
FROM (
  SELECT t.id, t.namespace, t.scope, t.operation, t.key, t.token, t.fingerprints, t.state,
    t.reply_digest, t.status_digest, t.reply
  FROM records t {walk}) t
ORDER BY t.scope, t.id
)sql";

// $1 actor, $2 reason, $3 and $4 pads; $5 ids, sorted, $6 tokens, as read; $7 reply_digest and $8
// status_digest as read, $9 the reply in its place, $10 and $11 its digests, NULL where it stays;
// $12 the checkpoint as read, $13 that in its place, NULL where it stays. The digests stand for the
// bytes: reply_digest is that of the reply under one key, status_digest that of what is left of it.
// Returns the ids whose reply, and those whose checkpoint was replaced. Locked rows are left.
constexpr std::string_view kReseal = R"sql(
WITH locked AS MATERIALIZED (
  SELECT t.id, t.namespace, t.scope, t.operation, t.key, t.state, t.attempt
  FROM records t
  WHERE t.id = ANY($5::uuid[]) AND t.token = ($6::uuid[])[{p}]
  ORDER BY t.id FOR UPDATE SKIP LOCKED),
replies AS (
  UPDATE records t SET reply = ($9::bytea[])[{p}], reply_digest = ($10::bytea[])[{p}],
    status_digest = ($11::bytea[])[{p}]
  WHERE t.id = ANY(ARRAY(SELECT l.id FROM locked l)) AND t.state = 2
    AND t.token = ($6::uuid[])[{p}] AND t.reply_digest = ($7::bytea[])[{p}]
    AND t.status_digest IS NOT DISTINCT FROM ($8::bytea[])[{p}]
    AND ($9::bytea[])[{p}] IS NOT NULL
  RETURNING t.id),
kept AS (
  UPDATE checkpoints t SET checkpoint = ($13::bytea[])[{p}]
  WHERE t.id = ANY(ARRAY(SELECT l.id FROM locked l)) AND t.checkpoint = ($12::bytea[])[{p}]
  RETURNING t.id),
changed AS MATERIALIZED (
  SELECT l.id FROM locked l
  WHERE l.id = ANY(ARRAY(SELECT r.id FROM replies r)) OR l.id = ANY(ARRAY(SELECT k.id FROM kept k))),
noted AS (
  INSERT INTO audit_log (at, actor, reason, action, forced, namespace, record_id, key_hmac, state,
    attempt, records)
  SELECT {now}, $1::text, $2::text, 5, false, t.namespace, t.id, {audit_hmac}, t.state, t.attempt,
    (SELECT count(*) FROM changed)
  FROM locked t WHERE t.id = (SELECT c.id FROM changed c ORDER BY c.id DESC LIMIT 1))
SELECT ARRAY(SELECT r.id FROM replies r), ARRAY(SELECT k.id FROM kept k)
)sql";

// $1 namespace, $2 the sequence to continue after, $3 how many.
constexpr std::string_view kReadAudit = R"sql(
SELECT a.sequence, a.at, a.actor, a.reason, a.action, a.forced, a.namespace, a.record_id,
  a.key_hmac, a.state, a.attempt, a.records
FROM audit_log a WHERE a.namespace = $1::text AND a.sequence > $2::bigint
ORDER BY a.sequence LIMIT $3::integer
)sql";

constexpr std::string_view kReadAuditKey = "SELECT k.key FROM audit_key k WHERE k.id";

std::string ReplyWithin(std::size_t bytes) {
  return absl::StrReplaceAll(AbslView(kReply), {{"{weight}", absl::StrCat(bytes)}});
}

std::string InsertOf(std::string_view operations) {
  return absl::StrReplaceAll(AbslView(kInsert), {{"{operations}", AbslView(operations)}});
}

// With its parameters behind `by` others.
std::string Shifted(const std::string& sql, int by) {
  std::string shifted;
  for (std::size_t at = 0; at < sql.size();) {
    shifted.push_back(sql[at]);
    if (sql[at++] != '$') continue;
    int number = 0;
    for (; at < sql.size() && absl::ascii_isdigit(sql[at]); ++at) {
      number = 10 * number + (sql[at] - '0');
    }
    absl::StrAppend(&shifted, number + by);
  }
  return shifted;
}

std::string RelaxedInsertOf(std::string_view operations) {
  return absl::StrCat(InsertOf(operations), ", ", AbslView(kRelaxed));
}

std::string CompleteAndInsertOf(std::string_view operations) {
  return absl::StrReplaceAll(
      AbslView(kCompleteAndInsert),
      {{"{complete}", AbslView(kComplete)},
       {"{insert}", Shifted(InsertOf(operations), PostgresStatements::kCompleteParameters)}});
}

std::string SweepOf(std::string_view visit) {
  const auto where = [](absl::string_view which) {
    return absl::StrReplaceAll(AbslView(kVisitedWhere), {{"{which}", which}});
  };
  return absl::StrReplaceAll(AbslView(kSweep),
                             {{"{visit}", AbslView(visit)},
                              {"{wanting 1}", where("v.want = 1")},
                              {"{wanting 2}", where("v.want = 2")},
                              {"{wanting 3}", where("v.want = 3")},
                              {"{to_watch}", where("v.watch AND v.want IS NULL")}});
}

std::string ListOf(std::string_view walk) { return absl::StrCat("{listed}", AbslView(walk)); }

// A statement over the rows of a walk, whose parameters stand behind `parameters` others.
std::string PurgeOf(std::string_view sql, std::string_view walk, std::string_view wanted,
                    int parameters) {
  const std::string visit = absl::StrReplaceAll(
      AbslView(kVisitOf),
      {{"{wanted}", AbslView(wanted)}, {"{walk}", Shifted(std::string(walk), parameters)}});
  return absl::StrReplaceAll(AbslView(sql), {{"{visit}", visit}});
}

std::string Fill(std::string_view sql, const std::string& clock_sql) {
  // In the order of nesting: a piece may hold those after it.
  std::string text = absl::StrReplaceAll(
      AbslView(sql), {{"{listed}", AbslView(kListed)},
                      {"{note_audit}", AbslView(kNoteAudit)},
                      {"{audit_hmac}", absl::StrReplaceAll(AbslView(kAuditHmac), {{"{row}", "t"}})},
                      {"{entomb}", AbslView(kEntomb)},
                      {"{at_risk}", AbslView(kAtRisk)}});
  text = absl::StrReplaceAll(text, {{"{record}", AbslView(kRecord)},
                                    {"{visited}", AbslView(kVisited)},
                                    {"{reply}", ReplyWithin(limits::kMaxBatchReplyBytes)},
                                    {"{few_replies}", ReplyWithin(kDroppedAtOnceBytes)},
                                    {"{labels}", AbslView(kLabels)},
                                    {"{confirmed}", AbslView(kConfirmed)},
                                    {"{held}", AbslView(kHeld)}});
  text = absl::StrReplaceAll(text, {{"{gone}", AbslView(kGone)},
                                    {"{sweepable}", AbslView(kSweepable)},
                                    {"{is_open_for_long}", AbslView(kIsOpenForLong)}});
  text = absl::StrReplaceAll(
      text, {{"{remembered}", AbslView(kRemembered)},
             {"{i}", "array_position($1::uuid[], t.id)"},
             {"{o}", "width_bucket(t.id, $1::uuid[])"},
             {"{p}", "array_position($5::uuid[], t.id)"},
             {"{step_replies}", absl::StrCat(limits::kMaxResealStepBytes)},
             {"{known}", absl::StrCat(AllMigrations().size())},
             {"{serve_lock}", AbslView(kPostgresServeLock)},
             {"{inspected}", absl::StrCat(kInspectedRows)},
             {"{margin}", absl::StrCat("interval '", absl::ToInt64Seconds(limits::kClockStepMargin),
                                       " seconds'")},
             {"{ahead}", absl::StrCat("interval '", absl::ToInt64Seconds(limits::kMaxKeyAhead),
                                      " seconds'")}});
  return absl::StrReplaceAll(text, {{"{now}", clock_sql}});
}

}  // namespace

PostgresStatements::PostgresStatements(const std::string& clock_sql)
    : insert{"insert", Fill(InsertOf(kManyOperations), clock_sql)},
      insert_few{"insert_few", Fill(InsertOf(kFewOperations), clock_sql)},
      insert_relaxed{"insert_relaxed", Fill(RelaxedInsertOf(kManyOperations), clock_sql)},
      insert_few_relaxed{"insert_few_relaxed", Fill(RelaxedInsertOf(kFewOperations), clock_sql)},
      insert_one{"insert_one", Fill(InsertOf(kOneOperation), clock_sql)},
      insert_one_relaxed{"insert_one_relaxed", Fill(RelaxedInsertOf(kOneOperation), clock_sql)},
      read_to_reserve{"read_to_reserve", Fill(kReadToReserve, clock_sql)},
      read_clock{"read_clock", Fill(kReadClock, clock_sql)},
      start_afresh{"start_afresh", Fill(kStartAfresh, clock_sql)},
      grant{"grant", Fill(kGrant, clock_sql)},
      renew_lease{"renew_lease", Fill(kRenewLease, clock_sql)},
      mark_unknown{"mark_unknown", Fill(kMarkUnknown, clock_sql)},
      complete{"complete", Fill(kComplete, clock_sql)},
      complete_one{"complete_one", Fill(kCompleteOne, clock_sql)},
      release{"release", Fill(kRelease, clock_sql)},
      extend{"extend", Fill(kExtend, clock_sql)},
      extend_with_checkpoint{"extend_with_checkpoint", Fill(kExtendWithCheckpoint, clock_sql)},
      complete_and_insert{"complete_and_insert",
                          Fill(CompleteAndInsertOf(kManyOperations), clock_sql)},
      complete_and_insert_few{"complete_and_insert_few",
                              Fill(CompleteAndInsertOf(kFewOperations), clock_sql)},
      read_to_settle{"read_to_settle", Fill(kReadToSettle, clock_sql)},
      read_whole{"read_whole", Fill(kReadWhole, clock_sql)},
      read_whole_confirmed{"read_whole_confirmed", Fill(kReadWholeConfirmed, clock_sql)},
      find_locked{"find_locked", Fill(kFindLocked, clock_sql)},
      sweep_ordered{"sweep_ordered", Fill(SweepOf(kVisitOrdered), clock_sql)},
      sweep_hashed{"sweep_hashed", Fill(SweepOf(kVisitHashed), clock_sql)},
      read_to_drop{"read_to_drop", Fill(kReadToDrop, clock_sql)},
      drop_replies{"drop_replies", Fill(kDropReplies, clock_sql)},
      list_namespace{"list_namespace", Fill(ListOf(kWalkNamespace), clock_sql)},
      list_scope{"list_scope", Fill(ListOf(kWalkScope), clock_sql)},
      list_unknown{"list_unknown", Fill(ListOf(kWalkUnknown), clock_sql)},
      list_children{"list_children", Fill(ListOf(kWalkChildren), clock_sql)},
      resolve{"resolve", Fill(kResolve, clock_sql)},
      purge_one{"purge_one", Fill(PurgeOf(kPurge, kVisitOne, "true", 0), clock_sql)},
      purge_scope{"purge_scope", Fill(PurgeOf(kPurge, kWalkScope, "true", 6), clock_sql)},
      purge_namespace{
          "purge_namespace",
          Fill(PurgeOf(kPurge, kWalkNamespace, "t.created_at < $11::timestamptz", 6), clock_sql)},
      count_scope{"count_scope", Fill(PurgeOf(kCount, kWalkScope, "true", 1), clock_sql)},
      count_namespace{
          "count_namespace",
          Fill(PurgeOf(kCount, kWalkNamespace, "t.created_at < $6::timestamptz", 1), clock_sql)},
      read_contents{
          "read_contents",
          Fill(absl::StrReplaceAll(AbslView(kReadContents), {{"{walk}", AbslView(kWalkNamespace)}}),
               clock_sql)},
      reseal{"reseal", Fill(kReseal, clock_sql)},
      read_audit{"read_audit", Fill(kReadAudit, clock_sql)},
      read_audit_key{"read_audit_key", Fill(kReadAuditKey, clock_sql)},
      end_unknown{"end_unknown", Fill(kEndUnknown, clock_sql)},
      measure_usage{
          "measure_usage",
          Fill(absl::StrReplaceAll(AbslView(kMeasureUsage), {{"{walk}", AbslView(kWalkNamespace)}}),
               clock_sql)},
      begin_session{"begin_session", Fill(kBeginSession, clock_sql)},
      read_schema{"read_schema", Fill(kReadSchema, clock_sql)},
      probe_commit{"probe_commit", Fill(kProbeCommit, clock_sql)},
      inspect{"inspect", Fill(kInspect, clock_sql)} {}

std::vector<const PostgresStatement*> PostgresStatements::OverTables() const {
  return {&insert,
          &insert_relaxed,
          &insert_one,
          &insert_one_relaxed,
          &read_to_reserve,
          &start_afresh,
          &grant,
          &renew_lease,
          &mark_unknown,
          &complete,
          &complete_one,
          &release,
          &extend,
          &extend_with_checkpoint,
          &complete_and_insert,
          &read_to_settle,
          &read_whole,
          &read_whole_confirmed,
          &find_locked,
          &sweep_ordered,
          &sweep_hashed,
          &read_to_drop,
          &drop_replies,
          &list_namespace,
          &list_scope,
          &list_unknown,
          &list_children,
          &resolve,
          &purge_one,
          &purge_scope,
          &purge_namespace,
          &count_scope,
          &count_namespace,
          &read_contents,
          &reseal,
          &read_audit,
          &read_audit_key,
          &end_unknown,
          &measure_usage,
          &probe_commit,
          &inspect};
}

}  // namespace idempotency::internal
