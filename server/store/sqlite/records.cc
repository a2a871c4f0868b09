#include "server/store/sqlite/records.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/sha256.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/record_key.h"
#include "idempotency/v1/record.pb.h"
#include "server/store/state_numbers.h"
#include "server/store/store_gauges.h"

namespace idempotency::internal {
namespace {

// In the order in which ReadRow and its parts number them; the reply is 21 and
// the checkpoint 22.
constexpr char kRowColumns[] =
    "namespace, scope, operation, key, state, attempt, token, request_token, recovering,"
    " on_lease_expiry, created_at, lease_expires_at, expires_at, completed_at, fingerprints,"
    " release_reason, annotations, reply_digest, reply_until, tombstone_until, status_digest";
constexpr char kReplyAndCheckpoint[] =
    ", reply, (SELECT checkpoint FROM checkpoints AS c WHERE c.id = r.id)";
// In place of the reply: whether there is one, from the row's header.
constexpr char kHasReply[] = ", nullif(reply IS NOT NULL, 0)";
constexpr char kFromRecords[] = " FROM records AS r WHERE id = ?1";

constexpr char kInsert[] =
    "INSERT INTO records (id, namespace, scope, operation, key, state, attempt, token,"
    " request_token, recovering, on_lease_expiry, created_at, lease_expires_at, expires_at,"
    " fingerprints, annotations, reply_until, tombstone_until, parent_key)"
    " VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8, 0, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
constexpr char kRemove[] = "DELETE FROM records WHERE id = ?1 AND token = ?2 AND attempt = ?3";
constexpr char kGrantNext[] =
    "UPDATE records SET state = 1, attempt = ?4, token = ?5, request_token = ?6, recovering = ?7,"
    " lease_expires_at = ?8, expires_at = ?9, tombstone_until = ?10,"
    " release_reason = CASE state WHEN 1 THEN '' ELSE release_reason END"
    " WHERE id = ?1 AND token = ?2 AND attempt = ?3 AND state <> 2";
constexpr char kRenewLease[] =
    "UPDATE records SET lease_expires_at = ?4"
    " WHERE id = ?1 AND token = ?2 AND attempt = ?3 AND state = 1";
constexpr char kMarkUnknown[] =
    "UPDATE records SET state = 4, release_reason = ''"
    " WHERE id = ?1 AND token = ?2 AND attempt = ?3 AND state = 1";
constexpr char kComplete[] =
    "UPDATE records SET state = 2, completed_at = ?3, reply_digest = ?4, reply = ?5"
    " WHERE id = ?1 AND token = ?2 AND state IN (1, 4)";
constexpr char kRelease[] =
    "UPDATE records SET state = ?3, release_reason = ?4, lease_expires_at = ?5"
    " WHERE id = ?1 AND token = ?2 AND state = 1";
constexpr char kExtend[] =
    "UPDATE records SET lease_expires_at = ?3 WHERE id = ?1 AND token = ?2 AND state = 1";
constexpr char kStoreCheckpoint[] =
    "INSERT INTO checkpoints (id, checkpoint) VALUES (?1, ?2)"
    " ON CONFLICT (id) DO UPDATE SET checkpoint = excluded.checkpoint";
constexpr char kSweepColumns[] =
    "SELECT id, token, attempt, state, on_lease_expiry, lease_expires_at, expires_at, reply_until,"
    " tombstone_until, status_digest IS NOT NULL, length(fingerprints) = 0 FROM records";
constexpr char kSweepRange[] = " WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3";
// From the index alone.
constexpr char kSweepIds[] = "SELECT id FROM records";
constexpr char kEntomb[] =
    "UPDATE records SET state = 3, request_token = NULL, recovering = 0, completed_at = NULL,"
    " fingerprints = x'', release_reason = '', annotations = NULL, reply_digest = NULL,"
    " reply = NULL, reply_until = NULL, status_digest = NULL, parent_key = NULL"
    " WHERE id = ?1 AND token = ?2 AND attempt = ?3";
// The walks of an administrator: ?1 namespace or parent's key, ?2 scope, ?3 id, ?4 how many.
// Behind the columns of a row whether there is a reply, and the id. The index is named, so that
// none is ever a scan of the table.
constexpr char kWalkNamespace[] =
    " FROM records AS r INDEXED BY records_by_scope"
    " WHERE namespace = ?1 AND (scope, id) > (?2, ?3) ORDER BY scope, id LIMIT ?4";
// ?5 now. In the order of WalkNamespace; only the header of a reply is read, for its length.
constexpr char kMeasureUsage[] =
    "SELECT scope, id, expires_at > ?5 OR state = 4 OR (state = 1 AND on_lease_expiry = 2),"
    " coalesce(length(reply), 0)"
    " FROM records AS r INDEXED BY records_by_scope"
    " WHERE namespace = ?1 AND (scope, id) > (?2, ?3) ORDER BY scope, id LIMIT ?4";
constexpr char kWalkScope[] =
    " FROM records AS r INDEXED BY records_by_scope"
    " WHERE namespace = ?1 AND scope = ?2 AND id > ?3 ORDER BY id LIMIT ?4";
constexpr char kWalkUnknown[] =
    " FROM records AS r INDEXED BY records_unknown_by_namespace"
    " WHERE state = 4 AND namespace = ?1 AND ?2 IS NOT NULL AND id > ?3 ORDER BY id LIMIT ?4";
constexpr char kWalkChildren[] =
    " FROM records AS r INDEXED BY records_by_parent"
    " WHERE parent_key = ?1 AND ?2 IS NOT NULL AND id > ?3 ORDER BY id LIMIT ?4";
// ?4 whether the reply is without its content, whose digest stays.
constexpr char kReplaceReply[] =
    "UPDATE records SET reply = ?3, reply_digest = CASE WHEN ?4 THEN reply_digest ELSE ?5 END,"
    " status_digest = CASE WHEN ?4 THEN ?5 END"
    " WHERE id = ?1 AND token = ?2 AND state = 2 AND (status_digest IS NOT NULL) = ?4";
constexpr char kReplaceCheckpoint[] = "UPDATE checkpoints SET checkpoint = ?2 WHERE id = ?1";
constexpr char kSettle[] =
    "UPDATE records SET state = ?4, token = ?5, expires_at = ?6,"
    " tombstone_until = ?6 + (tombstone_until - expires_at),"
    " completed_at = ?7, reply_digest = ?8, reply = ?9,"
    " release_reason = CASE ?4 WHEN 3 THEN ?10 ELSE release_reason END,"
    " lease_expires_at = CASE ?4 WHEN 3 THEN ?11 ELSE lease_expires_at END"
    " WHERE id = ?1 AND token = ?2 AND attempt = ?3 AND state IN (1, 4)";
constexpr char kSetTombstone[] =
    "UPDATE records SET created_at = min(created_at, ?4 - 1), expires_at = ?4,"
    " tombstone_until = ?5,"
    " lease_expires_at = min(lease_expires_at, ?4)"
    " WHERE id = ?1 AND token = ?2 AND attempt = ?3 AND state = 3";
constexpr char kRemoveCheckpoint[] = "DELETE FROM checkpoints WHERE id = ?1";
constexpr char kDropReply[] =
    "UPDATE records SET reply = ?4, status_digest = ?5"
    " WHERE id = ?1 AND token = ?2 AND attempt = ?3 AND state = 2";
// Both read a bounded number of rows: they run every second.
constexpr char kOldestReserved[] =
    "SELECT min(created_at) FROM (SELECT created_at FROM records INDEXED BY records_reserved"
    " WHERE state = 1 AND lease_expires_at > ?1 ORDER BY lease_expires_at LIMIT 10000)";
constexpr char kCountUnknown[] =
    "SELECT count(*) FROM (SELECT 1 FROM records WHERE state = 4 LIMIT ?1)";

std::optional<std::uint32_t> AttemptFromColumn(std::optional<std::int64_t> column) {
  if (!column || *column < 1 || *column > std::numeric_limits<std::uint32_t>::max()) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(*column);
}

std::string EncodeAnnotations(const ReserveOp& op) {
  v1::Record annotations;
  if (op.parent) *annotations.mutable_parent() = ToProto(*op.parent);
  annotations.mutable_labels()->insert(op.labels.begin(), op.labels.end());
  return annotations.SerializeAsString();
}

// The parts of a row. Each is false if the row has not the shape that this
// program writes.

bool ReadKey(const SqliteStatement& row, RecordKey& key) {
  const auto name_space = row.Text(0);
  const auto scope = row.Text(1);
  const auto operation = row.Text(2);
  const auto text = row.Text(3);
  if (!name_space || !scope || !operation || !text) return false;
  key = {std::string(*name_space), std::string(*scope), std::string(*operation),
         std::string(*text)};
  return true;
}

bool ReadGrant(const SqliteStatement& row, StoredRecord& stored) {
  const auto state = RecordStateFrom(row.Integer(4).value_or(0));
  const auto attempt = AttemptFromColumn(row.Integer(5));
  const auto token = row.UuidBlob(6);
  const auto recovering = row.Integer(8);
  const auto policy = LeaseExpiryFrom(row.Integer(9).value_or(0));
  stored.request_token = row.UuidBlob(7);
  if (!state || !attempt || !token || !recovering || !policy) return false;
  if (!stored.request_token && !row.IsNull(7)) return false;
  stored.record.state = *state;
  stored.record.attempt = *attempt;
  stored.token = *token;
  stored.recovering = *recovering != 0;
  stored.record.on_lease_expiry = *policy;
  return true;
}

// A column that may be empty: an invalid time must not count as an empty one.
bool ReadTime(const SqliteStatement& row, int column, std::optional<absl::Time>& time) {
  time = row.Time(column);
  return time || row.IsNull(column);
}

bool ReadTimes(const SqliteStatement& row, Record& record) {
  const auto created_at = row.Time(10);
  const auto lease_expires_at = row.Time(11);
  const auto expires_at = row.Time(12);
  if (!created_at || !lease_expires_at || !expires_at) return false;
  if (!ReadTime(row, 13, record.completed_at) || !ReadTime(row, 18, record.reply_expires_at) ||
      !ReadTime(row, 19, record.tombstone_until)) {
    return false;
  }
  record.created_at = *created_at;
  record.lease_expires_at = *lease_expires_at;
  record.expires_at = *expires_at;
  // As the schema's CHECKs: a row that breaks one would have every write to it
  // refused, and the rest of the batch with it.
  return record.created_at < record.expires_at && record.lease_expires_at <= record.expires_at &&
         (!record.completed_at || *record.completed_at < record.expires_at) &&
         (!record.tombstone_until || *record.tombstone_until > record.expires_at);
}

// As the columns of kSweepPage.
bool ReadSweepView(const SqliteStatement& row, SweepView& view) {
  const auto state = RecordStateFrom(row.Integer(3).value_or(0));
  const auto policy = LeaseExpiryFrom(row.Integer(4).value_or(0));
  const auto lease_expires_at = row.Time(5);
  const auto expires_at = row.Time(6);
  const auto reply_dropped = row.Integer(9);
  const auto entombed = row.Integer(10);
  if (!state || !policy || !lease_expires_at || !expires_at || !reply_dropped || !entombed ||
      !ReadTime(row, 7, view.reply_expires_at) || !ReadTime(row, 8, view.tombstone_until)) {
    return false;
  }
  view.state = *state;
  view.on_lease_expiry = *policy;
  view.lease_expires_at = *lease_expires_at;
  view.expires_at = *expires_at;
  view.reply_dropped = *reply_dropped != 0;
  view.entombed = *entombed != 0;
  return !view.tombstone_until || *view.tombstone_until > view.expires_at;
}

bool ReadDescription(const SqliteStatement& row, Record& record) {
  const auto fingerprints = row.Blob(14);
  const auto reason = row.Text(15);
  if (!fingerprints || !reason) return false;
  // A tombstone has none, and has expired: they are never compared.
  if (!fingerprints->empty() || !record.tombstone_until) {
    absl::StatusOr<std::vector<Fingerprint>> decoded = DecodeFingerprints(*fingerprints);
    if (!decoded.ok()) return false;
    record.fingerprints = *std::move(decoded);
  }
  record.release_reason = std::string(*reason);
  if (row.IsNull(16)) return true;
  const auto bytes = row.Blob(16);
  v1::Record annotations;
  if (!bytes || !annotations.ParseFromArray(bytes->data(), static_cast<int>(bytes->size()))) {
    return false;
  }
  if (annotations.has_parent()) record.parent = FromProto(annotations.parent());
  record.labels.insert(annotations.labels().begin(), annotations.labels().end());
  return true;
}

bool ReadDigest(const SqliteStatement& row, int column, Sha256Digest& digest) {
  const auto bytes = row.Blob(column);
  if (!bytes || bytes->size() != digest.size()) return false;
  std::copy(bytes->begin(), bytes->end(), digest.begin());
  return true;
}

bool ReadReply(const SqliteStatement& row, SqliteRecords::Detail detail, StoredRecord& stored) {
  Record& record = stored.record;
  const bool completed = record.state == RecordState::kCompleted;
  if (completed != record.completed_at.has_value() || completed == row.IsNull(17) ||
      completed == row.IsNull(21)) {
    return false;
  }
  if (!completed) return row.IsNull(20);
  EncodedReply reply;
  if (!ReadDigest(row, 17, reply.digest)) return false;
  if (!row.IsNull(20)) {
    stored.completed_digest = reply.digest;
    if (!ReadDigest(row, 20, reply.digest)) return false;
  }
  if (detail == SqliteRecords::Detail::kWhole) {
    const auto bytes = row.Blob(21);
    if (!bytes) return false;
    reply.bytes = std::string(*bytes);
  }
  record.reply = std::move(reply);
  return true;
}

RecordId HighestId() {
  Uuid::Bytes highest;
  highest.fill(0xFF);
  return RecordId(highest);
}

// `last` outlives the run.
void BindSweepRange(const std::optional<RecordId>& after, const RecordId& last, int limit,
                    SqliteStatement& run) {
  if (after) {
    run.Bind(1, *after);
  } else {
    // Below every id.
    run.BindBlob(1, "");
  }
  run.Bind(2, last);
  run.Bind(3, std::int64_t{limit});
}

// Unless a column is damaged.
void AddSweepRow(const SqliteStatement& row, std::vector<SqliteRecords::SweepRow>& rows) {
  const auto id = row.UuidBlob(0);
  const auto token = row.UuidBlob(1);
  const auto attempt = AttemptFromColumn(row.Integer(2));
  SweepView view;
  if (id && token && attempt && ReadSweepView(row, view)) {
    rows.push_back({*id, Guard{*token, *attempt}, view});
  }
}

absl::Status Damaged() {
  return MakeError(Reason::kRecordDamaged,
                   "the stored record is damaged; it is kept as it is and never run again");
}

absl::StatusOr<std::optional<StoredRecord>> ReadRow(const SqliteStatement& row, const RecordId& id,
                                                    SqliteRecords::Detail detail) {
  StoredRecord stored;
  Record& record = stored.record;
  record.id = id;
  if (!ReadKey(row, record.key) || !ReadGrant(row, stored) || !ReadTimes(row, record) ||
      !ReadDescription(row, record) || !ReadReply(row, detail, stored)) {
    return Damaged();
  }
  if (detail == SqliteRecords::Detail::kWhole) {
    stored.checkpoint = std::string(row.Blob(22).value_or(""));
  }
  return std::optional<StoredRecord>(std::move(stored));
}

}  // namespace

absl::StatusOr<SqliteRecords> SqliteRecords::Prepare(SqliteConnection& connection) {
  const std::string find_whole =
      absl::StrCat("SELECT ", kRowColumns, kReplyAndCheckpoint, kFromRecords);
  const std::string find_slim = absl::StrCat("SELECT ", kRowColumns, kHasReply, kFromRecords);
  const auto walk = [](const char* from) {
    return absl::StrCat("SELECT ", kRowColumns, kHasReply, ", id", from);
  };
  const std::string walk_namespace = walk(kWalkNamespace);
  const std::string walk_scope = walk(kWalkScope);
  const std::string walk_unknown = walk(kWalkUnknown);
  const std::string walk_children = walk(kWalkChildren);
  const std::string read_contents =
      absl::StrCat("SELECT ", kRowColumns, kReplyAndCheckpoint, ", id", kWalkNamespace);
  const std::string sweep_page = absl::StrCat(kSweepColumns, kSweepRange);
  const std::string sweep_ids = absl::StrCat(kSweepIds, kSweepRange);
  const std::string sweep_row = absl::StrCat(kSweepColumns, " WHERE id = ?1");
  SqliteRecords records;
  const std::pair<SqliteStatement*, const char*> statements[] = {
      {&records.find_whole_, find_whole.c_str()},
      {&records.find_slim_, find_slim.c_str()},
      {&records.insert_, kInsert},
      {&records.remove_, kRemove},
      {&records.grant_next_, kGrantNext},
      {&records.renew_lease_, kRenewLease},
      {&records.mark_unknown_, kMarkUnknown},
      {&records.complete_, kComplete},
      {&records.release_, kRelease},
      {&records.extend_, kExtend},
      {&records.store_checkpoint_, kStoreCheckpoint},
      {&records.sweep_page_, sweep_page.c_str()},
      {&records.sweep_ids_, sweep_ids.c_str()},
      {&records.sweep_row_, sweep_row.c_str()},
      {&records.entomb_, kEntomb},
      {&records.walk_namespace_, walk_namespace.c_str()},
      {&records.walk_scope_, walk_scope.c_str()},
      {&records.walk_unknown_, walk_unknown.c_str()},
      {&records.walk_children_, walk_children.c_str()},
      {&records.read_contents_, read_contents.c_str()},
      {&records.replace_reply_, kReplaceReply},
      {&records.replace_checkpoint_, kReplaceCheckpoint},
      {&records.measure_usage_, kMeasureUsage},
      {&records.settle_, kSettle},
      {&records.set_tombstone_, kSetTombstone},
      {&records.remove_checkpoint_, kRemoveCheckpoint},
      {&records.drop_reply_, kDropReply},
      {&records.oldest_reserved_, kOldestReserved},
      {&records.count_unknown_, kCountUnknown},
  };
  for (const auto& [statement, sql] : statements) {
    absl::StatusOr<SqliteStatement> prepared = connection.Prepare(sql);
    if (!prepared.ok()) return prepared.status();
    *statement = *std::move(prepared);
  }
  return records;
}

absl::StatusOr<std::optional<StoredRecord>> SqliteRecords::Find(const RecordId& id, Detail detail) {
  SqliteStatement::Run run(detail == Detail::kWhole ? find_whole_ : find_slim_);
  run->Bind(1, id);
  const absl::StatusOr<bool> row = run->Step();
  if (!row.ok()) return run->met_damage() ? Damaged() : row.status();
  if (!*row) return std::optional<StoredRecord>();
  return ReadRow(*run, id, detail);
}

absl::Status SqliteRecords::Insert(const ReserveOp& op, const Grant& grant, const Uuid& token) {
  const std::string fingerprints = EncodeFingerprints(op.fingerprints);
  const std::string annotations = EncodeAnnotations(op);
  SqliteStatement::Run run(insert_);
  run->Bind(1, op.id);
  run->BindText(2, op.key.name_space);
  run->BindText(3, op.key.scope);
  run->BindText(4, op.key.operation);
  run->BindText(5, op.key.key);
  run->Bind(6, std::int64_t{grant.attempt});
  run->Bind(7, token);
  run->Bind(8, op.request_token);
  run->Bind(9, ToProto(op.on_lease_expiry));
  run->Bind(10, grant.created_at);
  run->Bind(11, grant.lease_expires_at);
  run->Bind(12, grant.expires_at);
  run->BindBlob(13, fingerprints);
  if (!annotations.empty()) run->BindBlob(14, annotations);
  if (grant.reply_expires_at) run->Bind(15, *grant.reply_expires_at);
  if (grant.tombstone_until) run->Bind(16, *grant.tombstone_until);
  if (op.parent) run->BindText(17, op.parent->key);
  return run->ChangeOne();
}

absl::Status SqliteRecords::StartAfresh(const ReserveOp& op, const Grant& grant, const Uuid& token,
                                        const Guard& guard) {
  const absl::Status removed = Remove(op.id, guard);
  return removed.ok() ? Insert(op, grant, token) : removed;
}

absl::Status SqliteRecords::GrantNext(const ReserveOp& op, const Grant& grant, const Uuid& token,
                                      const Guard& guard) {
  SqliteStatement::Run run(grant_next_);
  run->Bind(1, op.id);
  run->Bind(2, guard.token);
  run->Bind(3, std::int64_t{guard.attempt});
  run->Bind(4, std::int64_t{grant.attempt});
  run->Bind(5, token);
  run->Bind(6, op.request_token);
  run->Bind(7, std::int64_t{grant.recovering});
  run->Bind(8, grant.lease_expires_at);
  run->Bind(9, grant.expires_at);
  if (grant.tombstone_until) run->Bind(10, *grant.tombstone_until);
  return run->ChangeOne();
}

absl::Status SqliteRecords::RenewLease(const RecordId& id, absl::Time lease_expires_at,
                                       const Guard& guard) {
  SqliteStatement::Run run(renew_lease_);
  run->Bind(1, id);
  run->Bind(2, guard.token);
  run->Bind(3, std::int64_t{guard.attempt});
  run->Bind(4, lease_expires_at);
  return run->ChangeOne();
}

absl::Status SqliteRecords::MarkUnknown(const RecordId& id, const Guard& guard) {
  SqliteStatement::Run run(mark_unknown_);
  run->Bind(1, id);
  run->Bind(2, guard.token);
  run->Bind(3, std::int64_t{guard.attempt});
  return run->ChangeOne();
}

absl::Status SqliteRecords::Complete(const CompleteOp& op, absl::Time now) {
  const std::string_view digest = AsBytes(op.reply.digest);
  SqliteStatement::Run run(complete_);
  run->Bind(1, op.id);
  run->Bind(2, op.token);
  run->Bind(3, now);
  run->BindBlob(4, digest);
  run->BindBlob(5, op.reply.bytes);
  return run->ChangeOne();
}

absl::Status SqliteRecords::Release(const ReleaseOp& op, RecordState becomes,
                                    absl::Time lease_expires_at) {
  SqliteStatement::Run run(release_);
  run->Bind(1, op.id);
  run->Bind(2, op.token);
  run->Bind(3, ToProto(becomes));
  run->BindText(4, StoredReason(op));
  run->Bind(5, lease_expires_at);
  return run->ChangeOne();
}

absl::Status SqliteRecords::Extend(const ExtendOp& op, absl::Time lease_expires_at) {
  {
    SqliteStatement::Run run(extend_);
    run->Bind(1, op.id);
    run->Bind(2, op.token);
    run->Bind(3, lease_expires_at);
    const absl::Status extended = run->ChangeOne();
    if (!extended.ok() || !op.checkpoint) return extended;
  }
  SqliteStatement::Run run(store_checkpoint_);
  run->Bind(1, op.id);
  run->BindBlob(2, *op.checkpoint);
  return run->ChangeOne();
}

absl::StatusOr<SqliteRecords::SweepPage> SqliteRecords::ReadSweepPage(
    const std::optional<RecordId>& after, const std::optional<RecordId>& until, int limit) {
  const RecordId last = until.value_or(HighestId());
  SweepPage page;
  SqliteStatement::Run run(sweep_page_);
  BindSweepRange(after, last, limit, *run);
  for (absl::StatusOr<bool> row = run->Step();; row = run->Step()) {
    if (!row.ok()) {
      return run->met_damage() ? ReadSweepRows(after, last, limit)
                               : absl::StatusOr<SweepPage>(row.status());
    }
    if (!*row) return page;
    page.looked_at += 1;
    if (const auto id = run->UuidBlob(0)) page.last = id;
    AddSweepRow(*run, page.rows);
  }
}

absl::StatusOr<SqliteRecords::SweepPage> SqliteRecords::ReadSweepRows(
    const std::optional<RecordId>& after, const RecordId& last, int limit) {
  std::vector<RecordId> ids;
  {
    SqliteStatement::Run run(sweep_ids_);
    BindSweepRange(after, last, limit, *run);
    for (absl::StatusOr<bool> row = run->Step();; row = run->Step()) {
      if (!row.ok()) return row.status();
      if (!*row) break;
      ids.push_back(run->UuidBlob(0).value_or(RecordId()));
    }
  }
  SweepPage page;
  for (const RecordId& id : ids) {
    page.looked_at += 1;
    page.last = id;
    SqliteStatement::Run run(sweep_row_);
    run->Bind(1, id);
    const absl::StatusOr<bool> row = run->Step();
    if (!row.ok() && !run->met_damage()) return row.status();
    if (row.ok() && *row) AddSweepRow(*run, page.rows);
  }
  return page;
}

absl::Status SqliteRecords::Remove(const RecordId& id, const Guard& guard) {
  SqliteStatement::Run run(remove_);
  run->Bind(1, id);
  run->Bind(2, guard.token);
  run->Bind(3, std::int64_t{guard.attempt});
  return run->ChangeOne();
}

absl::Status SqliteRecords::LeaveTombstone(const RecordId& id, const Guard& guard) {
  {
    SqliteStatement::Run run(entomb_);
    run->Bind(1, id);
    run->Bind(2, guard.token);
    run->Bind(3, std::int64_t{guard.attempt});
    if (const absl::Status entombed = run->ChangeOne(); !entombed.ok()) return entombed;
  }
  SqliteStatement::Run run(remove_checkpoint_);
  run->Bind(1, id);
  return run->Step().status();
}

absl::Status SqliteRecords::DropReply(const RecordId& id, const EncodedReply& rest,
                                      const Guard& guard) {
  const std::string_view digest = AsBytes(rest.digest);
  SqliteStatement::Run run(drop_reply_);
  run->Bind(1, id);
  run->Bind(2, guard.token);
  run->Bind(3, std::int64_t{guard.attempt});
  run->BindBlob(4, rest.bytes);
  run->BindBlob(5, digest);
  return run->ChangeOne();
}

SqliteStatement& SqliteRecords::StatementOf(ListWalk walk) {
  switch (walk) {
    case ListWalk::kNamespace:
      return walk_namespace_;
    case ListWalk::kScope:
      return walk_scope_;
    case ListWalk::kUnknown:
      return walk_unknown_;
    case ListWalk::kChildren:
      break;
  }
  return walk_children_;
}

namespace {

// Parameters ?2 and ?3 of a walk.
void BindPlace(SqliteStatement& statement, const RecordPlace& place) {
  statement.BindText(2, place.scope);
  // Below every id.
  if (place.id.is_nil()) {
    statement.BindBlob(3, "");
  } else {
    statement.Bind(3, place.id);
  }
}

}  // namespace

absl::StatusOr<UsageStep> SqliteRecords::MeasureUsage(const UsageOp& op, absl::Time now) {
  const RecordPlace place = op.after.value_or(RecordPlace());
  SqliteStatement::Run run(measure_usage_);
  run->BindText(1, op.name_space);
  BindPlace(*run, place);
  run->Bind(4, std::int64_t{op.limit});
  run->Bind(5, now);
  UsageStep step;
  for (absl::StatusOr<bool> row = run->Step();; row = run->Step()) {
    if (!row.ok()) return row.status();
    if (!*row) break;
    step.visited += 1;
    step.next =
        RecordPlace{std::string(run->Text(0).value_or("")), run->UuidBlob(1).value_or(RecordId())};
    if (run->Integer(2).value_or(0) == 0) continue;
    step.usage.records += 1;
    step.usage.reply_bytes += run->Integer(3).value_or(0);
  }
  if (step.visited < op.limit) step.next.reset();
  return step;
}

absl::StatusOr<std::vector<SqliteRecords::WalkRow>> SqliteRecords::Walk(
    ListWalk walk, std::string_view first_part, const std::optional<RecordPlace>& after,
    int limit) {
  std::vector<WalkRow> rows;
  const RecordPlace place = after.value_or(RecordPlace());
  SqliteStatement::Run run(StatementOf(walk));
  run->BindText(1, first_part);
  BindPlace(*run, place);
  run->Bind(4, std::int64_t{limit});
  for (absl::StatusOr<bool> row = run->Step();; row = run->Step()) {
    if (!row.ok()) return row.status();
    if (!*row) return rows;
    const RecordId id = run->UuidBlob(22).value_or(RecordId());
    WalkRow read{{std::string(run->Text(1).value_or("")), id}, std::nullopt};
    absl::StatusOr<std::optional<StoredRecord>> stored = ReadRow(*run, id, Detail::kSlim);
    if (stored.ok()) read.stored = *std::move(stored);
    rows.push_back(std::move(read));
  }
}

absl::StatusOr<SqliteRecords::ContentPage> SqliteRecords::ReadContents(
    std::string_view name_space, const std::optional<RecordPlace>& after, int limit) {
  ContentPage page;
  const RecordPlace place = after.value_or(RecordPlace());
  SqliteStatement::Run run(read_contents_);
  run->BindText(1, name_space);
  BindPlace(*run, place);
  run->Bind(4, std::int64_t{limit} + 1);
  std::size_t bytes = 0;
  for (absl::StatusOr<bool> row = run->Step();; row = run->Step()) {
    if (!row.ok()) return row.status();
    page.at_end = !*row;
    const bool full = page.rows.size() == static_cast<std::size_t>(limit);
    if (page.at_end || full || bytes >= limits::kMaxResealStepBytes) return page;
    const RecordId id = run->UuidBlob(23).value_or(RecordId());
    WalkRow read{{std::string(run->Text(1).value_or("")), id}, std::nullopt};
    absl::StatusOr<std::optional<StoredRecord>> stored = ReadRow(*run, id, Detail::kWhole);
    if (stored.ok()) {
      read.stored = *std::move(stored);
      const std::optional<EncodedReply>& reply = read.stored->record.reply;
      if (reply) bytes += reply->bytes.size();
    }
    page.rows.push_back(std::move(read));
  }
}

absl::Status SqliteRecords::ReplaceReply(const RecordId& id, const Uuid& token,
                                         const EncodedReply& reply, bool content_dropped) {
  const std::string_view digest = AsBytes(reply.digest);
  SqliteStatement::Run run(replace_reply_);
  run->Bind(1, id);
  run->Bind(2, token);
  run->BindBlob(3, reply.bytes);
  run->Bind(4, std::int64_t{content_dropped});
  run->BindBlob(5, digest);
  return run->ChangeOne();
}

absl::Status SqliteRecords::ReplaceCheckpoint(const RecordId& id, std::string_view checkpoint) {
  SqliteStatement::Run run(replace_checkpoint_);
  run->Bind(1, id);
  run->BindBlob(2, checkpoint);
  return run->ChangeOne();
}

absl::Status SqliteRecords::Settle(const ResolveOp& op, const ResolveDecision& decision,
                                   absl::Time now) {
  std::string_view digest;
  if (op.reply) digest = AsBytes(op.reply->digest);
  SqliteStatement::Run run(settle_);
  run->Bind(1, op.id);
  run->Bind(2, decision.guard.token);
  run->Bind(3, std::int64_t{decision.guard.attempt});
  run->Bind(4, ToProto(decision.answer->state));
  run->Bind(5, op.token);
  run->Bind(6, decision.answer->expires_at);
  if (op.reply) {
    run->Bind(7, now);
    run->BindBlob(8, digest);
    run->BindBlob(9, op.reply->bytes);
  }
  run->BindText(10, op.note.reason);
  run->Bind(11, now);
  return run->ChangeOne();
}

absl::Status SqliteRecords::LeaveTombstone(const RecordId& id, const Guard& guard,
                                           const TombstoneTimes& times) {
  if (const absl::Status left = LeaveTombstone(id, guard); !left.ok()) return left;
  SqliteStatement::Run run(set_tombstone_);
  run->Bind(1, id);
  run->Bind(2, guard.token);
  run->Bind(3, std::int64_t{guard.attempt});
  run->Bind(4, times.expires_at);
  run->Bind(5, times.tombstone_until);
  return run->ChangeOne();
}

absl::StatusOr<std::optional<absl::Time>> SqliteRecords::OldestReserved(absl::Time now) {
  SqliteStatement::Run run(oldest_reserved_);
  run->Bind(1, now);
  const absl::StatusOr<bool> row = run->Step();
  if (!row.ok()) return row.status();
  return *row ? run->Time(0) : std::nullopt;
}

absl::StatusOr<std::int64_t> SqliteRecords::CountUnknown() {
  SqliteStatement::Run run(count_unknown_);
  run->Bind(1, StoreGauges::kMaxCountedUnknown);
  const absl::StatusOr<bool> row = run->Step();
  if (!row.ok()) return row.status();
  return *row ? run->Integer(0).value_or(0) : 0;
}

}  // namespace idempotency::internal
