#include "server/store/postgres/statements/single_row.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "core/absl_view.h"
#include "server/store/postgres/statements/walks.h"
#include "server/store/store.h"

namespace idempotency::internal {
namespace {

// Placeholders:
//   {confirmed}  whether what was read is on every node that commits must reach
//   {guard}      t is as it was read: $1 id, $2 token, $3 attempt, $4 state, $5 the end of the
//                lease, $6 expires_at
//   {held}       t is the record of $1 to $6 (id, token, the four parts), held by that token
//   {visit}      the columns of a visit, of row t
//   {newest}     how many rows of each kind an inspection reads
//   {unknown}    how many UNKNOWN records it counts
// States are numbers: 1 RESERVED, 2 COMPLETED, 3 RELEASED, 4 UNKNOWN.

// $1 id, $2 how many bytes a reply that is read may have. In the order of record_column, whose
// clock, checkpoint and labels are NULL here; no subquery, which a distributed server would plan
// anew each time.
constexpr std::string_view kRead = R"sql(
SELECT t.id, t.namespace, t.scope, t.operation, t.key, t.state, t.require_recovery, t.recovering,
  t.attempt, t.token, t.request_token, t.created_at, t.lease_until, t.expires_at, t.completed_at,
  t.fingerprints, t.reply_digest, t.reply_until, t.tombstone_until, t.status_digest,
  t.release_reason, NULL::timestamptz,
  CASE WHEN octet_length(t.reply) <= $2::bigint THEN t.reply END, NULL::bytea, NULL::text[],
  {confirmed}, t.parent_namespace, t.parent_scope, t.parent_operation, t.parent_key,
  t.labels::text
FROM records t WHERE t.id = $1::uuid
)sql";

// As in PostgresStatements; evaluated on the node that has the row.
constexpr std::string_view kConfirmed =
    "CASE WHEN current_setting('synchronous_standby_names') <> ''"
    " THEN pg_logical_emit_message(true, 'idempotency', '') IS NOT NULL END";

// $1 id. Returns record_created_at, checkpoint.
constexpr std::string_view kReadCheckpoint =
    "SELECT p.record_created_at, p.checkpoint FROM checkpoints p WHERE p.id = $1::uuid";

// $1 id, $2-$5 the four parts, $6 require_recovery, $7 token, $8 request token or NULL,
// $9 created_at, $10 lease_until, $11 expires_at, $12 fingerprints, $13-$16 the parent's parts or
// NULL, $17 labels or NULL, $18 reply_until or NULL, $19 tombstone_until or NULL. Returns id, or
// no row if the record exists.
constexpr std::string_view kInsert = R"sql(
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
)sql";

// $1-$19 as above; $20 token, $21 attempt, $22 state, $23 expires_at, as read. Returns id.
constexpr std::string_view kStartAfresh = R"sql(
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
  AND t.expires_at = $23::timestamptz
RETURNING t.id
)sql";

// $1 id, $2 the created_at of the life before, under which nobody reads it. So what is left by a
// process that ends before this costs its space only.
constexpr std::string_view kClearOldCheckpoint = R"sql(
UPDATE checkpoints p SET checkpoint = ''
WHERE p.id = $1::uuid AND p.record_created_at = $2::timestamptz
)sql";

constexpr std::string_view kGuard =
    "t.id = $1::uuid AND t.token = $2::uuid AND t.attempt = $3::integer AND t.state = $4::smallint"
    " AND t.lease_until = $5::timestamptz AND t.expires_at = $6::timestamptz";

// $1-$6 as in {guard}; $7 new token, $8 request token or NULL, $9 whether it is a recovery grant,
// $10 lease_until, $11 expires_at, $12 tombstone_until or NULL. Returns id.
constexpr std::string_view kGrant = R"sql(
UPDATE records t SET
  state = 1, watched = false, attempt = t.attempt + 1, token = $7::uuid, request_token = $8::uuid,
  recovering = $9::boolean, lease_until = $10::timestamptz, expires_at = $11::timestamptz,
  tombstone_until = $12::timestamptz,
  release_reason = CASE WHEN t.state <> 1 THEN t.release_reason END
WHERE {guard}
RETURNING t.id
)sql";

// $1-$6 as in {guard}; $7 lease_until. Returns id.
constexpr std::string_view kRenewLease = R"sql(
UPDATE records t SET lease_until = $7::timestamptz WHERE {guard} RETURNING t.id
)sql";

// $1-$6 as in {guard}. Returns id.
constexpr std::string_view kMarkUnknown = R"sql(
UPDATE records t SET state = 4, watched = true, open_for_long = false, release_reason = NULL
WHERE {guard} AND t.require_recovery
RETURNING t.id
)sql";

constexpr std::string_view kHeld =
    "t.id = $1::uuid AND t.token = $2::uuid AND t.namespace = $3::text AND t.scope = $4::text"
    " AND t.operation = $5::text AND t.key = $6::text";

// $1-$6 as in {held}; $7 reply, $8 its digest, $9 completed_at, $10 the time that the record must
// be remembered at. Returns expires_at, lease_until.
constexpr std::string_view kComplete = R"sql(
UPDATE records t SET
  state = 2, watched = false, open_for_long = false, completed_at = $9::timestamptz,
  reply = $7::bytea, reply_digest = $8::bytea
WHERE {held} AND t.state IN (1, 4) AND t.expires_at > $10::timestamptz
RETURNING t.expires_at, t.lease_until
)sql";

// $1-$6 as in {held}; $7 the state to take, $8 whether that is UNKNOWN, $9 reason, $10 the end of
// the pause, $11 as $10 of {complete}. Returns id.
constexpr std::string_view kRelease = R"sql(
UPDATE records t SET
  state = $7::smallint, watched = $8::boolean, open_for_long = false, release_reason = $9::text,
  lease_until = least($10::timestamptz, t.expires_at)
WHERE {held} AND t.state = 1 AND (t.expires_at > $11::timestamptz OR t.require_recovery)
RETURNING t.id
)sql";

// $1-$6 as in {held}; $7 the end of the lease, $8 as $10 of {complete}. Returns created_at,
// lease_until.
constexpr std::string_view kExtend = R"sql(
UPDATE records t SET
  lease_until = greatest(t.lease_until, least($7::timestamptz, t.expires_at))
WHERE {held} AND t.state = 1 AND t.expires_at > $8::timestamptz
RETURNING t.created_at, t.lease_until
)sql";

// $1 id, $2 the record's created_at, $3 checkpoint. In one transaction with {extend}, so that the
// row of the record is locked: a later attempt's checkpoint is never replaced by an earlier one's.
constexpr std::string_view kStoreCheckpoint = R"sql(
INSERT INTO checkpoints (id, record_created_at, checkpoint)
VALUES ($1::uuid, $2::timestamptz, $3::bytea)
ON CONFLICT (id) DO UPDATE
  SET record_created_at = excluded.record_created_at, checkpoint = excluded.checkpoint
)sql";

constexpr std::string_view kVisit = R"sql(
SELECT t.id, t.created_at, t.token, t.attempt, t.state, t.require_recovery, t.lease_until,
  t.expires_at, t.reply_until, t.tombstone_until, t.status_digest IS NOT NULL,
  octet_length(t.fingerprints) = 0, t.open_for_long, t.watched
FROM records t)sql";

// $1 the id to continue after, $2 the last one at most, $3 how many.
constexpr std::string_view kVisitOrdered = R"sql({visit}
WHERE t.id > $1::uuid AND t.id <= $2::uuid AND t.id < '80000000-0000-0000-0000-000000000000'
ORDER BY t.id LIMIT $3::integer)sql";

// $1 and $2 created_at and id to continue after, $3 and $4 the last ones at most, $5 how many.
constexpr std::string_view kVisitHashed = R"sql({visit}
WHERE t.id >= '80000000-0000-0000-0000-000000000000'
  AND (t.created_at, t.id) > ($1::timestamptz, $2::uuid)
  AND (t.created_at, t.id) <= ($3::timestamptz, $4::uuid)
ORDER BY t.created_at, t.id LIMIT $5::integer)sql";

// $1-$6 as in {guard}. Returns created_at.
constexpr std::string_view kRemove = "DELETE FROM records t WHERE {guard} RETURNING t.created_at";

// $1-$6 as in {guard}; $7 created_at, $8 lease_until, $9 expires_at, $10 tombstone_until. Returns
// id.
constexpr std::string_view kEntomb = R"sql(
UPDATE records t SET
  state = 3, watched = false, open_for_long = false, completed_at = NULL, fingerprints = '',
  request_token = NULL, reply = NULL, reply_digest = NULL, status_digest = NULL,
  reply_until = NULL, labels = NULL, release_reason = NULL, parent_namespace = NULL,
  parent_scope = NULL, parent_operation = NULL, parent_key = NULL,
  created_at = $7::timestamptz, lease_until = $8::timestamptz, expires_at = $9::timestamptz,
  tombstone_until = $10::timestamptz
WHERE {guard}
RETURNING t.id
)sql";

// $1-$6 as in {guard}; $7 open_for_long.
constexpr std::string_view kWatch = R"sql(
UPDATE records t SET open_for_long = $7::boolean, watched = (t.state = 4) WHERE {guard}
)sql";

// $1-$6 as in {guard}; $7 the remaining part of the reply, $8 its digest, $9 the digest of the
// reply, as read. Returns id.
constexpr std::string_view kDropReply = R"sql(
UPDATE records t SET reply = $7::bytea, status_digest = $8::bytea
WHERE {guard} AND t.status_digest IS NULL AND t.reply_digest = $9::bytea
RETURNING t.id
)sql";

// $1 id, $2 the created_at of the record that was removed or reduced.
constexpr std::string_view kRemoveCheckpoint = R"sql(
DELETE FROM checkpoints p WHERE p.id = $1::uuid AND p.record_created_at <= $2::timestamptz
)sql";

// $1-$6 as in {guard}; $7 state, $8 token, $9 completed_at, $10 reply and $11 its digest, or NULL;
// $12 a reason, or NULL for that of before; $13 lease_until, $14 expires_at, $15 tombstone_until
// or NULL. Returns id.
constexpr std::string_view kResolve = R"sql(
UPDATE records t SET
  state = $7::smallint, watched = false, open_for_long = false, token = $8::uuid,
  completed_at = $9::timestamptz, reply = $10::bytea, reply_digest = $11::bytea,
  release_reason = coalesce($12::text, t.release_reason), lease_until = $13::timestamptz,
  expires_at = $14::timestamptz, tombstone_until = $15::timestamptz
WHERE {guard}
RETURNING t.id
)sql";

// $1 id, $2 token, $3 reply_digest and $4 status_digest or NULL, as read; $5 the reply in its
// place, $6 and $7 its digests. Returns id.
constexpr std::string_view kReplaceReply = R"sql(
UPDATE records t SET reply = $5::bytea, reply_digest = $6::bytea, status_digest = $7::bytea
WHERE t.id = $1::uuid AND t.token = $2::uuid AND t.state = 2 AND t.reply_digest = $3::bytea
  AND t.status_digest IS NOT DISTINCT FROM $4::bytea
RETURNING t.id
)sql";

// $1 id, $2 the checkpoint as read, $3 that in its place. Returns id.
constexpr std::string_view kReplaceCheckpoint = R"sql(
UPDATE checkpoints p SET checkpoint = $3::bytea
WHERE p.id = $1::uuid AND p.checkpoint = $2::bytea
RETURNING p.id
)sql";

// $1 at, $2 actor, $3 reason, $4 action, $5 forced, $6 namespace, $7 record's id, $8 AuditHmac() of
// its key, $9 state, $10 attempt, $11 how many records.
constexpr std::string_view kNoteAudit = R"sql(
INSERT INTO audit_log (at, actor, reason, action, forced, namespace, record_id, key_hmac, state,
  attempt, records)
VALUES ($1::timestamptz, $2::text, $3::text, $4::smallint, $5::boolean, $6::text, $7::uuid,
  $8::bytea, $9::smallint, $10::integer, $11::integer)
)sql";

constexpr std::string_view kPlaces = "SELECT t.scope, t.id FROM records t ";

// $1 to $4 as kWalkNamespace, $5 now. Returns scope, id, whether it is live, and the reply's bytes.
constexpr std::string_view kMeasureUsage = R"sql(
SELECT t.scope, t.id,
  (t.expires_at > $5::timestamptz OR t.state = 4 OR (t.state = 1 AND t.require_recovery)),
  octet_length(t.reply)
FROM records t )sql";

// Each returns state, created_at, lease_until.
constexpr std::string_view kOpenForLong = R"sql(
SELECT t.state, t.created_at, t.lease_until FROM records t WHERE t.open_for_long
ORDER BY t.created_at LIMIT {newest}
)sql";
constexpr std::string_view kNewestOrdered = R"sql(
SELECT t.state, t.created_at, t.lease_until FROM records t
WHERE t.id < '80000000-0000-0000-0000-000000000000' ORDER BY t.id DESC LIMIT {newest}
)sql";
constexpr std::string_view kNewestHashed = R"sql(
SELECT t.state, t.created_at, t.lease_until FROM records t
WHERE t.id >= '80000000-0000-0000-0000-000000000000'
ORDER BY t.created_at DESC, t.id DESC LIMIT {newest}
)sql";
constexpr std::string_view kCountUnknown = R"sql(
SELECT t.state FROM records t WHERE t.watched ORDER BY t.created_at LIMIT {unknown}
)sql";

// Every shard sends so many, every second, to every process.
constexpr int kInspectedRows = 100;

std::string ReadOf(std::string_view confirmed) {
  return absl::StrReplaceAll(AbslView(kRead), {{"{confirmed}", AbslView(confirmed)}});
}

std::string Fill(std::string_view sql) {
  return absl::StrReplaceAll(AbslView(sql),
                             {{"{guard}", AbslView(kGuard)},
                              {"{held}", AbslView(kHeld)},
                              {"{visit}", AbslView(kVisit)},
                              {"{newest}", absl::StrCat(kInspectedRows)},
                              {"{unknown}", absl::StrCat(StoreGauges::kMaxCountedUnknown)}});
}

std::string PlacesOf(std::string_view walk) {
  return absl::StrCat(AbslView(kPlaces), AbslView(walk));
}

}  // namespace

// A name of its own: a session of a test may have prepared those of both modes.
SingleRowStatements::SingleRowStatements(const std::string& clock_sql)
    : read_clock{"read_clock", absl::StrCat("SELECT ", clock_sql)},
      read{"read_row", ReadOf("NULL::boolean")},
      read_confirmed{"read_row_confirmed", ReadOf(kConfirmed)},
      read_checkpoint{"read_row_checkpoint", std::string(kReadCheckpoint)},
      insert{"insert_row", Fill(kInsert)},
      start_afresh{"start_row_afresh", Fill(kStartAfresh)},
      clear_old_checkpoint{"clear_old_row_checkpoint", Fill(kClearOldCheckpoint)},
      grant{"grant_row", Fill(kGrant)},
      renew_lease{"renew_row_lease", Fill(kRenewLease)},
      mark_unknown{"mark_row_unknown", Fill(kMarkUnknown)},
      complete{"complete_row", Fill(kComplete)},
      release{"release_row", Fill(kRelease)},
      extend{"extend_row", Fill(kExtend)},
      store_checkpoint{"store_row_checkpoint", Fill(kStoreCheckpoint)},
      visit_ordered{"visit_ordered", Fill(kVisitOrdered)},
      visit_hashed{"visit_hashed", Fill(kVisitHashed)},
      remove{"remove_row", Fill(kRemove)},
      entomb{"entomb_row", Fill(kEntomb)},
      watch{"watch_row", Fill(kWatch)},
      drop_reply{"drop_row_reply", Fill(kDropReply)},
      remove_checkpoint{"remove_row_checkpoint", Fill(kRemoveCheckpoint)},
      resolve{"resolve_row", Fill(kResolve)},
      replace_reply{"replace_row_reply", Fill(kReplaceReply)},
      replace_checkpoint{"replace_row_checkpoint", Fill(kReplaceCheckpoint)},
      note_audit{"note_audit", Fill(kNoteAudit)},
      walk_namespace{"walk_namespace", PlacesOf(kWalkNamespace)},
      walk_scope{"walk_scope", PlacesOf(kWalkScope)},
      walk_unknown{"walk_unknown", PlacesOf(kWalkUnknown)},
      walk_children{"walk_children", PlacesOf(kWalkChildren)},
      measure_usage{"measure_row_usage",
                    absl::StrCat(AbslView(kMeasureUsage), AbslView(kWalkNamespace))},
      open_for_long{"open_for_long", Fill(kOpenForLong)},
      newest_ordered{"newest_ordered", Fill(kNewestOrdered)},
      newest_hashed{"newest_hashed", Fill(kNewestHashed)},
      count_unknown{"count_unknown", Fill(kCountUnknown)} {}

std::vector<const PostgresStatement*> SingleRowStatements::OverTables() const {
  return {&read,
          &read_confirmed,
          &read_checkpoint,
          &insert,
          &start_afresh,
          &clear_old_checkpoint,
          &grant,
          &renew_lease,
          &mark_unknown,
          &complete,
          &release,
          &extend,
          &store_checkpoint,
          &visit_ordered,
          &visit_hashed,
          &remove,
          &entomb,
          &watch,
          &drop_reply,
          &remove_checkpoint,
          &resolve,
          &replace_reply,
          &replace_checkpoint,
          &note_audit,
          &walk_namespace,
          &walk_scope,
          &walk_unknown,
          &walk_children,
          &measure_usage,
          &open_for_long,
          &newest_ordered,
          &newest_hashed,
          &count_unknown};
}

}  // namespace idempotency::internal
