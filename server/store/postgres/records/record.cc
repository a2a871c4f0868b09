#include "server/store/postgres/records/record.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint.h"
#include "server/store/postgres/records/reply_digests.h"
#include "server/store/postgres/statements/record_columns.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

using namespace record_column;  // NOLINT(google-build-using-namespace): column names

absl::Status Damaged() {
  return MakeError(Reason::kRecordDamaged,
                   "the stored record cannot be read; it is never run again");
}

bool Has(const PostgresResult& result, int row, int column) { return !result.IsNull(row, column); }

std::optional<RecordKey> ReadParent(const PostgresResult& result, int row) {
  if (!Has(result, row, kParentNamespace)) return std::nullopt;
  return RecordKey{result.Text(row, kParentNamespace), result.Text(row, kParentScope),
                   result.Text(row, kParentOperation), result.Text(row, kParentKey)};
}

// False if they are not an object of texts.
bool ReadLabels(const PostgresResult& result, int row, Record& record) {
  if (!Has(result, row, kLabels)) return true;
  google::protobuf::Struct object;
  if (!google::protobuf::util::JsonStringToMessage(result.Text(row, kLabels), &object).ok()) {
    return false;
  }
  for (const auto& [name, value] : object.fields()) {
    if (!value.has_string_value()) return false;
    record.labels.emplace(name, value.string_value());
  }
  return true;
}

// False for a value that this service never writes, such as 'infinity'.
bool ReadTime(const PostgresResult& result, int row, int column, absl::Time& time) {
  const std::optional<absl::Time> read = result.TimeIfValid(row, column);
  if (read) time = *read;
  return read.has_value();
}

bool ReadTime(const PostgresResult& result, int row, int column, std::optional<absl::Time>& time) {
  if (Has(result, row, column)) time = result.TimeIfValid(row, column);
  return time.has_value() || !Has(result, row, column);
}

bool ReadTimes(const PostgresResult& result, int row, Record& record) {
  return ReadTime(result, row, kCreatedAt, record.created_at) &&
         ReadTime(result, row, kLeaseUntil, record.lease_expires_at) &&
         ReadTime(result, row, kExpiresAt, record.expires_at) &&
         ReadTime(result, row, kReplyUntil, record.reply_expires_at) &&
         ReadTime(result, row, kTombstoneUntil, record.tombstone_until);
}

// A tombstone has none, and has expired: they are never compared.
bool ReadFingerprints(const PostgresResult& result, int row, Record& record) {
  const std::string bytes = result.Bytea(row, kFingerprints);
  if (bytes.empty() && record.tombstone_until) return true;
  auto fingerprints = DecodeFingerprints(bytes);
  if (!fingerprints.ok()) return false;
  record.fingerprints = *std::move(fingerprints);
  return true;
}

// False if the digest has a wrong size. The decoder checks the reply's bytes
// against it.
bool ReadReply(const PostgresResult& result, int row, StoredRecord& stored) {
  EncodedReply reply;
  if (!ReadDigest(result, row, kReplyDigest, reply.digest)) return false;
  if (Has(result, row, kStatusDigest)) {
    stored.completed_digest = reply.digest;
    if (!ReadDigest(result, row, kStatusDigest, reply.digest)) return false;
  }
  if (Has(result, row, kReply)) reply.bytes = result.Bytea(row, kReply);
  stored.record.reply = std::move(reply);
  return ReadTime(result, row, kCompletedAt, stored.record.completed_at);
}

void AppendEscaped(std::string_view text, std::string& json) {
  constexpr std::string_view kHex = "0123456789abcdef";
  json.push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      json.push_back('\\');
      json.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json.append("\\u00");
      json.push_back(kHex[static_cast<unsigned char>(c) >> 4]);
      json.push_back(kHex[static_cast<unsigned char>(c) & 0xF]);
    } else {
      json.push_back(c);
    }
  }
  json.push_back('"');
}

}  // namespace

absl::StatusOr<PostgresRecord> ReadRecord(const PostgresResult& result, int row) {
  PostgresRecord read;
  Record& record = read.stored.record;
  record.id = result.GetUuid(row, kId);
  record.key = {result.Text(row, kNamespace), result.Text(row, kScope),
                result.Text(row, kOperation), result.Text(row, kKey)};
  const std::optional<RecordState> state = RecordStateFrom(result.Integer(row, kState));
  if (!state) return Damaged();
  record.state = *state;
  record.attempt = static_cast<std::uint32_t>(result.Integer(row, kAttempt));
  record.on_lease_expiry =
      result.Bool(row, kRequireRecovery) ? LeaseExpiry::kRequireRecovery : LeaseExpiry::kTakeOver;
  record.parent = ReadParent(result, row);
  if (!ReadLabels(result, row, record) || !ReadTimes(result, row, record)) return Damaged();
  if (Has(result, row, kReleaseReason)) record.release_reason = result.Text(row, kReleaseReason);
  if (!ReadFingerprints(result, row, record)) return Damaged();
  if (record.state == RecordState::kCompleted && !ReadReply(result, row, read.stored)) {
    return Damaged();
  }
  record.token = result.GetUuid(row, kToken);
  if (Has(result, row, kRequestToken)) {
    read.stored.request_token = result.GetUuid(row, kRequestToken);
  }
  read.stored.recovering = result.Bool(row, kRecovering);
  if (Has(result, row, kCheckpoint)) read.stored.checkpoint = result.Bytea(row, kCheckpoint);
  read.read_at = result.Time(row, kNow);
  if (result.misread()) return Damaged();
  return read;
}

std::string LabelsToJson(const std::map<std::string, std::string>& labels) {
  std::string json = "{";
  for (const auto& [name, value] : labels) {
    if (json.size() > 1) json.push_back(',');
    AppendEscaped(name, json);
    json.push_back(':');
    AppendEscaped(value, json);
  }
  json.push_back('}');
  return json;
}

}  // namespace idempotency::internal
