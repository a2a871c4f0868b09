#include "server/store/postgres/statements/single_row/sql.h"

namespace idempotency::internal::single_row_sql {

const std::string_view kSettle = R"sql(
-- statement: complete_row
-- $1-$6 as in {held}; $7 reply, $8 its digest, $9 completed_at, $10 the time that the record must
-- be remembered at. Returns expires_at, lease_until.
UPDATE records t SET
  state = 2, watched = false, open_for_long = false, completed_at = $9::timestamptz,
  reply = $7::bytea, reply_digest = $8::bytea
WHERE {held} AND t.state IN (1, 4) AND t.expires_at > $10::timestamptz
RETURNING t.expires_at, t.lease_until

-- statement: release_row
-- $1-$6 as in {held}; $7 the state to take, $8 whether that is UNKNOWN, $9 reason, $10 the end of
-- the pause, $11 as $10 of {complete_row}. Returns id.
UPDATE records t SET
  state = $7::smallint, watched = $8::boolean, open_for_long = false, release_reason = $9::text,
  lease_until = least($10::timestamptz, t.expires_at)
WHERE {held} AND t.state = 1 AND (t.expires_at > $11::timestamptz OR t.require_recovery)
RETURNING t.id

-- statement: extend_row
-- $1-$6 as in {held}; $7 the end of the lease, $8 as $10 of {complete_row}. Returns created_at,
-- lease_until.
UPDATE records t SET
  lease_until = greatest(t.lease_until, least($7::timestamptz, t.expires_at))
WHERE {held} AND t.state = 1 AND t.expires_at > $8::timestamptz
RETURNING t.created_at, t.lease_until

-- statement: store_row_checkpoint
-- $1 id, $2 the record's created_at, $3 checkpoint. In one transaction with {extend_row}, so that
-- the row of the record is locked: a later attempt's checkpoint is never replaced by an earlier
-- one's.
INSERT INTO checkpoints (id, record_created_at, checkpoint)
VALUES ($1::uuid, $2::timestamptz, $3::bytea)
ON CONFLICT (id) DO UPDATE
  SET record_created_at = excluded.record_created_at, checkpoint = excluded.checkpoint

-- statement: read_row_to_settle
-- $1 id. Without what no decision about a known record depends on: reply_until, reply, labels.
SELECT {row_until_digest}, NULL::timestamptz, {row_from_tombstone}, NULL::bytea, NULL::bytea,
  NULL::text, {confirmed}
FROM records t WHERE t.id = $1::uuid
)sql";

}  // namespace idempotency::internal::single_row_sql
