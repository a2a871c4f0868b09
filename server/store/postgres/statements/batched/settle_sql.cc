#include "server/store/postgres/statements/batched/sql.h"

namespace idempotency::internal::batched_sql {

const std::string_view kSettle = R"sql(
-- statement: complete
-- $1-$6 as in {held}, $7 replies, $8 their digests. Returns id, completed_at,
-- expires_at, lease_until.
UPDATE records t SET
  state = 2, watched = false, open_for_long = false, completed_at = {now},
  reply = ($7::bytea[])[{o}], reply_digest = ($8::bytea[])[{o}]
WHERE {held}
  AND t.state IN (1, 4) AND t.expires_at > {now}
RETURNING t.id, t.completed_at, t.expires_at, t.lease_until

-- statement: complete_one
-- The same for one, its parameters without arrays.
UPDATE records t SET
  state = 2, watched = false, open_for_long = false, completed_at = {now},
  reply = $7::bytea, reply_digest = $8::bytea
WHERE t.id = $1::uuid AND t.token = $2::uuid AND t.namespace = $3::text AND t.scope = $4::text
  AND t.operation = $5::text AND t.key = $6::text
  AND t.state IN (1, 4) AND t.expires_at > {now}
RETURNING t.id, t.completed_at, t.expires_at, t.lease_until

-- piece: completed_then_inserted
-- The rows that {complete} returns, in its columns, then those that {insert} returns, behind them.
SELECT c.id, c.completed_at, c.expires_at, c.lease_until,
  NULL::uuid, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz
FROM completed c
UNION ALL
SELECT NULL, NULL, NULL, NULL, i.id, i.created_at, i.lease_until, i.expires_at, i.now
FROM inserted i

-- statement: complete_and_insert
-- The parameters of {complete}, then those of {insert}. In this order too: rows are locked before
-- keys are inserted in every statement, and no insert waits for a row ({many_operations}), so that
-- calls do not wait crosswise. Left are records that another call made after this statement began.
WITH completed (id, completed_at, expires_at, lease_until) AS ({complete}),
inserted (id, created_at, lease_until, expires_at, now) AS ({insert +8})
{completed_then_inserted}

-- statement: release
-- $1-$6 as in {held}, $7 states to take, $8 reasons, $9 pauses. Returns id.
UPDATE records t SET
  state = ($7::smallint[])[{o}], watched = ($7::smallint[])[{o}] = 4, open_for_long = false,
  release_reason = ($8::text[])[{o}],
  lease_until = least({now} + ($9::interval[])[{o}], t.expires_at)
WHERE {held} AND t.state = 1 AND {remembered}
RETURNING t.id

-- statement: extend
-- $1-$6 as in {held}, $7 leases. Returns id, lease_until, now.
UPDATE records t SET
  lease_until = greatest(t.lease_until, least({now} + ($7::interval[])[{o}], t.expires_at))
WHERE {held} AND t.state = 1
  AND t.expires_at > {now}
RETURNING t.id, t.lease_until, {now}

-- statement: extend_with_checkpoint
-- $1-$7 as in {extend}, $8 checkpoints. One statement, so that neither is kept alone.
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

-- statement: read_to_settle
-- $1 ids. A value in another column damages no settle: the reply, the checkpoint and the labels are
-- NULL too.
SELECT {record_to_settle}, NULL::bytea, NULL::bytea, NULL::text, {confirmed}
FROM records t WHERE t.id = ANY($1::uuid[])
)sql";

}  // namespace idempotency::internal::batched_sql
