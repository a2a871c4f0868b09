#include "server/store/postgres/statements/batched/sql.h"

namespace idempotency::internal::batched_sql {

// States are numbers: 1 RESERVED, 2 COMPLETED, 3 RELEASED, 4 UNKNOWN.
const std::string_view kExpressions = R"sql(
-- piece: i
-- The place of row t in the batch.
array_position($1::uuid[], t.id)

-- piece: o
-- The same, where $1 is sorted: a binary search, once per column.
width_bucket(t.id, $1::uuid[])

-- piece: p
-- The place of row t in the batch whose ids are $5.
array_position($5::uuid[], t.id)

-- piece: remembered
-- t is not forgotten (design: "Words").
(t.expires_at > {now} OR t.state = 4 OR (t.state = 1 AND t.require_recovery))

-- piece: gone
-- t is forgotten, and its tombstone is over.
(NOT {remembered} AND (t.tombstone_until IS NULL OR t.tombstone_until <= {now}))

-- piece: sweepable
-- The same for so long that no step of the clock reverts it.
(NOT {remembered} AND greatest(t.expires_at, t.tombstone_until) <= {now} - {margin})

-- piece: is_open_for_long
-- t is reserved, under a live lease, and not recently.
(t.state = 1 AND t.lease_until > {now} AND t.created_at <= {now} - {open_for_long})

-- piece: at_risk
-- Once t is forgotten, its operation may run twice (NeedsForce).
(t.state = 4 OR (t.state = 1 AND (t.require_recovery OR t.lease_until > {now})))

-- piece: held
-- t is the record of $1 to $6 (ids, tokens, the four parts), and its token holds it; the ids are
-- sorted.
t.id = ANY($1::uuid[]) AND t.token = ($2::uuid[])[{o}]
  AND t.namespace = ($3::text[])[{o}] AND t.scope = ($4::text[])[{o}]
  AND t.operation = ($5::text[])[{o}] AND t.key = ($6::text[])[{o}]

-- piece: entomb
-- The columns that a tombstone loses.
state = 3, watched = false, open_for_long = false, completed_at = NULL, fingerprints = '',
request_token = NULL, reply = NULL, reply_digest = NULL, status_digest = NULL,
reply_until = NULL, labels = NULL,
release_reason = NULL, parent_namespace = NULL, parent_scope = NULL, parent_operation = NULL,
parent_key = NULL

-- piece: record
-- The columns of every read, in the order of record_column.
{record_until_digest}, t.reply_until, {record_from_tombstone}

-- piece: record_to_settle
-- The same without what no decision about a known record depends on.
{record_until_digest}, NULL::timestamptz, {record_from_tombstone}

-- piece: record_until_digest
t.id, t.namespace, t.scope, t.operation, t.key, t.state, t.require_recovery, t.recovering,
t.attempt, t.token, t.request_token, t.created_at, t.lease_until, t.expires_at,
t.completed_at, t.fingerprints, t.reply_digest

-- piece: record_from_tombstone
t.tombstone_until, t.status_digest, t.release_reason, {now}

-- piece: labels
-- Not unpacked here: an error about one record would be the whole batch's.
t.labels::text

-- piece: bytes_before
-- The bytes of the replies before t in the batch, so that the first one is read each time. Lengths
-- are known without reading the replies.
coalesce(sum(octet_length(t.reply)) OVER (
  ORDER BY {i} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)

-- piece: reply
-- NULL once those before it reach the limit. The sum costs the server a plan node for each
-- statement.
CASE WHEN {bytes_before} < {max_batch_reply_bytes} THEN t.reply END

-- piece: confirmed
-- The row t that was read is on every node that commits must reach.
--
-- An answer about a record must be as durable as a new promise: a replayed reply, but also a
-- running attempt, or a token that no longer holds. A row can be visible although its commit's wait
-- for the synchronous standby was cancelled (the session was cancelled or ended, the server
-- crashed), and then a failover reverts it. So where commits wait for a standby, a statement that
-- finds a row writes its own message to the log, and its commit waits until everything that it read
-- is on the standby too. Once per statement, and only if there is a row.
(SELECT pg_logical_emit_message(true, 'idempotency', '') IS NOT NULL
  WHERE current_setting('synchronous_standby_names') <> '')

-- piece: relaxed
-- A commit after it waits neither for the disk nor for a standby. Within the statement, so that it
-- needs no transaction of several; until its end, so that no later statement of the session is
-- affected. Once, and only if there is a row.
(SELECT set_config('synchronous_commit', 'off', true) IS NOT NULL)
)sql";

}  // namespace idempotency::internal::batched_sql
