#include "server/store/sqlite/records/row.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/sha256.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/uuid.h"
#include "idempotency/v1/record.pb.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

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
  const auto attempt = SqliteAttemptFrom(row.Integer(5));
  const auto token = row.UuidBlob(6);
  const auto recovering = row.Integer(8);
  const auto policy = LeaseExpiryFrom(row.Integer(9).value_or(0));
  stored.request_token = row.UuidBlob(7);
  if (!state || !attempt || !token || !recovering || !policy) return false;
  if (!stored.request_token && !row.IsNull(7)) return false;
  stored.record.state = *state;
  stored.record.attempt = *attempt;
  stored.record.token = *token;
  stored.recovering = *recovering != 0;
  stored.record.on_lease_expiry = *policy;
  return true;
}

bool ReadTimes(const SqliteStatement& row, Record& record) {
  const auto created_at = row.Time(10);
  const auto lease_expires_at = row.Time(11);
  const auto expires_at = row.Time(12);
  if (!created_at || !lease_expires_at || !expires_at) return false;
  if (!ReadSqliteTime(row, 13, record.completed_at) ||
      !ReadSqliteTime(row, 18, record.reply_expires_at) ||
      !ReadSqliteTime(row, 19, record.tombstone_until)) {
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
      completed == row.IsNull(kSqliteReplyColumn)) {
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
    const auto bytes = row.Blob(kSqliteReplyColumn);
    if (!bytes) return false;
    reply.bytes = std::string(*bytes);
  }
  record.reply = std::move(reply);
  return true;
}

}  // namespace

std::optional<std::uint32_t> SqliteAttemptFrom(std::optional<std::int64_t> column) {
  if (!column || *column < 1 || *column > std::numeric_limits<std::uint32_t>::max()) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(*column);
}

bool ReadSqliteTime(const SqliteStatement& row, int column, std::optional<absl::Time>& time) {
  time = row.Time(column);
  return time || row.IsNull(column);
}

absl::Status DamagedSqliteRow() {
  return MakeError(Reason::kRecordDamaged,
                   "the stored record is damaged; it is kept as it is and never run again");
}

absl::Status ChangeOneToMaintain(SqliteStatement& write) {
  absl::Status changed = write.ChangeOne();
  // Where SQLite frees the pages of a reply or a checkpoint it reads them.
  return write.met_damage() ? DamagedSqliteRow() : changed;
}

absl::StatusOr<std::optional<StoredRecord>> ReadSqliteRow(const SqliteStatement& row,
                                                          const RecordId& id,
                                                          SqliteRecords::Detail detail) {
  StoredRecord stored;
  Record& record = stored.record;
  record.id = id;
  if (!ReadKey(row, record.key) || !ReadGrant(row, stored) || !ReadTimes(row, record) ||
      !ReadDescription(row, record) || !ReadReply(row, detail, stored)) {
    return DamagedSqliteRow();
  }
  if (detail == SqliteRecords::Detail::kWhole) {
    stored.checkpoint = std::string(row.Blob(kSqliteReplyColumn + 1).value_or(""));
  }
  return std::optional<StoredRecord>(std::move(stored));
}

}  // namespace idempotency::internal
