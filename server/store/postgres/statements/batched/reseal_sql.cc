#include "server/store/postgres/statements/batched/sql.h"

namespace idempotency::internal::batched_sql {

const std::string_view kReseal = R"sql(
-- statement: read_contents
-- $1-$4 as in {namespace_range}. What may be sealed of the next rows, forgotten or not. The reply
-- is NULL once those before it reach the limit. No column of {record}: a reply is read without the
-- rest.
SELECT t.id, t.namespace, t.scope, t.operation, t.key, t.token, t.fingerprints, t.state,
  t.reply_digest, t.status_digest,
  CASE WHEN coalesce(sum(octet_length(t.reply)) OVER (
      ORDER BY t.scope, t.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
    < {max_reseal_step_bytes} THEN t.reply END,
  (SELECT p.checkpoint FROM checkpoints p WHERE p.id = t.id)
FROM (
  SELECT t.id, t.namespace, t.scope, t.operation, t.key, t.token, t.fingerprints, t.state,
    t.reply_digest, t.status_digest, t.reply
  FROM records t
  {namespace_range}) t
ORDER BY t.scope, t.id

-- statement: reseal
-- $1 actor, $2 reason, $3 and $4 pads; $5 ids, sorted, $6 tokens, as read; $7 reply_digest and $8
-- status_digest as read, $9 the reply in its place, $10 and $11 its digests, NULL where it stays;
-- $12 the checkpoint as read, $13 that in its place, NULL where it stays. The digests stand for the
-- bytes: reply_digest is that of the reply under one key, status_digest that of what is left of it.
-- Returns the ids whose reply, and those whose checkpoint was replaced. Locked rows are left.
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
  WHERE l.id = ANY(ARRAY(SELECT r.id FROM replies r))
    OR l.id = ANY(ARRAY(SELECT k.id FROM kept k))),
noted AS (
  INSERT INTO audit_log (at, actor, reason, action, forced, namespace, record_id, key_hmac, state,
    attempt, records)
  SELECT {now}, $1::text, $2::text, 5, false, t.namespace, t.id, {audit_hmac}, t.state, t.attempt,
    (SELECT count(*) FROM changed)
  FROM locked t WHERE t.id = (SELECT c.id FROM changed c ORDER BY c.id DESC LIMIT 1))
SELECT ARRAY(SELECT r.id FROM replies r), ARRAY(SELECT k.id FROM kept k)
)sql";

}  // namespace idempotency::internal::batched_sql
