#include "server/store/redis/record.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/length_prefix.h"
#include "core/sha256.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

constexpr std::size_t kLengthBytes = 4;

// The order of NAMES in record.lua.
enum Field : std::size_t {
  kKey,
  kState,
  kAttempt,
  kToken,
  kRequestToken,
  kRecovering,
  kPolicy,
  kCreatedAt,
  kLeaseUntil,
  kExpiresAt,
  kCompletedAt,
  kReplyUntil,
  kTombstoneUntil,
  kFingerprints,
  kParent,
  kLabels,
  kReason,
  kCheckpoint,
  kReplyDigest,
  kCompletedDigest,
  kFields
};

std::optional<std::vector<std::string>> UnpackParts(std::string_view bytes) {
  std::vector<std::string> parts;
  while (!bytes.empty()) {
    if (bytes.size() < kLengthBytes) return std::nullopt;
    const std::size_t size = ReadBigEndian32(bytes);
    bytes.remove_prefix(kLengthBytes);
    if (bytes.size() < size) return std::nullopt;
    parts.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return parts;
}

std::optional<RecordKey> UnpackKey(std::string_view bytes) {
  std::optional<std::vector<std::string>> parts = UnpackParts(bytes);
  if (!parts || parts->size() != 4) return std::nullopt;
  return RecordKey{(*parts)[0], (*parts)[1], (*parts)[2], (*parts)[3]};
}

std::optional<std::int64_t> Number(RedisValue value) {
  std::int64_t number = 0;
  if (!absl::SimpleAtoi(AbslView(value.text()), &number)) return std::nullopt;
  return number;
}

// False unless it is a time.
bool ReadTime(RedisValue value, absl::Time& time) {
  const std::optional<std::int64_t> micros = Number(value);
  if (micros) time = absl::FromUnixMicros(*micros);
  return micros.has_value();
}

// Empty: none.
bool ReadTime(RedisValue value, std::optional<absl::Time>& time) {
  if (value.text().empty()) return true;
  return ReadTime(value, time.emplace());
}

bool ReadDigest(RedisValue value, Sha256Digest& digest) {
  const std::string_view bytes = value.text();
  if (bytes.size() != digest.size()) return false;
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return true;
}

bool ReadTimes(RedisValue fields, Record& record) {
  return ReadTime(fields[kCreatedAt], record.created_at) &&
         ReadTime(fields[kLeaseUntil], record.lease_expires_at) &&
         ReadTime(fields[kExpiresAt], record.expires_at) &&
         ReadTime(fields[kReplyUntil], record.reply_expires_at) &&
         ReadTime(fields[kTombstoneUntil], record.tombstone_until);
}

// State, attempt, policy.
bool ReadNumbers(RedisValue fields, Record& record) {
  const auto state = RecordStateFrom(Number(fields[kState]).value_or(0));
  const auto policy = LeaseExpiryFrom(Number(fields[kPolicy]).value_or(0));
  const auto attempt = Number(fields[kAttempt]);
  if (!state || !policy || !attempt || *attempt < 1) return false;
  record.state = *state;
  record.on_lease_expiry = *policy;
  record.attempt = static_cast<std::uint32_t>(*attempt);
  return true;
}

// What belongs to the request.
bool ReadRequest(RedisValue fields, Record& record) {
  std::optional<RecordKey> key = UnpackKey(fields[kKey].text());
  if (!key) return false;
  record.key = *std::move(key);
  // A tombstone has none.
  if (const std::string_view prints = fields[kFingerprints].text(); !prints.empty()) {
    auto fingerprints = DecodeFingerprints(prints);
    if (!fingerprints.ok()) return false;
    record.fingerprints = *std::move(fingerprints);
  }
  if (!fields[kParent].text().empty()) {
    record.parent = UnpackKey(fields[kParent].text());
    if (!record.parent) return false;
  }
  auto labels = UnpackRedisLabels(fields[kLabels].text());
  if (!labels) return false;
  record.labels = *std::move(labels);
  record.release_reason = std::string(fields[kReason].text());
  return true;
}

bool ReadGrant(RedisValue fields, StoredRecord& stored) {
  const std::optional<Uuid> token = UuidFrom(fields[kToken].text());
  if (!token) return false;
  stored.record.token = *token;
  if (!fields[kRequestToken].text().empty()) {
    stored.request_token = UuidFrom(fields[kRequestToken].text());
    if (!stored.request_token) return false;
  }
  stored.recovering = fields[kRecovering].text() == "1";
  stored.checkpoint = std::string(fields[kCheckpoint].text());
  return true;
}

bool ReadReply(RedisValue fields, std::string_view bytes, StoredRecord& stored) {
  if (stored.record.state != RecordState::kCompleted) return true;
  EncodedReply reply;
  if (!ReadDigest(fields[kReplyDigest], reply.digest)) return false;
  if (!fields[kCompletedDigest].text().empty() &&
      !ReadDigest(fields[kCompletedDigest], stored.completed_digest.emplace())) {
    return false;
  }
  reply.bytes = std::string(bytes);
  stored.record.reply = std::move(reply);
  return ReadTime(fields[kCompletedAt], stored.record.completed_at) &&
         stored.record.completed_at.has_value();
}

}  // namespace

std::string PackRedisKey(const RecordKey& key) {
  std::string bytes;
  for (const std::string* const part : {&key.name_space, &key.scope, &key.operation, &key.key}) {
    AppendPart(*part, bytes);
  }
  return bytes;
}

std::string PackRedisLabels(const std::map<std::string, std::string>& labels) {
  std::string bytes;
  for (const auto& [name, value] : labels) {
    AppendPart(name, bytes);
    AppendPart(value, bytes);
  }
  return bytes;
}

std::optional<std::map<std::string, std::string>> UnpackRedisLabels(std::string_view bytes) {
  std::optional<std::vector<std::string>> parts = UnpackParts(bytes);
  if (!parts || parts->size() % 2 != 0) return std::nullopt;
  std::map<std::string, std::string> labels;
  for (std::size_t i = 0; i < parts->size(); i += 2) {
    labels.emplace(std::move((*parts)[i]), std::move((*parts)[i + 1]));
  }
  return labels;
}

std::string_view UuidBytes(const Uuid& uuid) {
  return {reinterpret_cast<const char*>(uuid.bytes().data()), uuid.bytes().size()};
}

std::optional<Uuid> UuidFrom(std::string_view bytes) {
  Uuid::Bytes uuid{};
  if (bytes.size() != uuid.size()) return std::nullopt;
  std::copy(bytes.begin(), bytes.end(), uuid.begin());
  return Uuid(uuid);
}

std::string RedisTime(absl::Time time) { return absl::StrCat(absl::ToUnixMicros(time)); }

absl::Status RedisRecordDamaged() {
  return MakeError(Reason::kRecordDamaged,
                   "the stored record cannot be read; it is never run again");
}

absl::StatusOr<RedisRead> ReadRedisRecord(const RecordId& id, RedisValue answer) {
  if (answer.size() != 4 || answer[3].size() != kFields) return RedisRecordDamaged();
  RedisRead read;
  read.now = absl::FromUnixMicros(answer[0].integer());
  read.reply_bytes = static_cast<std::size_t>(answer[1].integer());
  const std::string_view reply = answer[2].text();
  read.reply_left_out = reply.size() != read.reply_bytes;
  const RedisValue fields = answer[3];
  std::size_t missing = 0;
  for (std::size_t i = 0; i < kFields; ++i) missing += fields[i].IsNil() ? 1 : 0;
  if (missing == kFields && read.reply_bytes == 0) return read;
  StoredRecord& stored = read.stored.emplace();
  stored.record.id = id;
  if (missing > 0 || !ReadNumbers(fields, stored.record) || !ReadTimes(fields, stored.record) ||
      !ReadRequest(fields, stored.record) || !ReadGrant(fields, stored) ||
      !ReadReply(fields, reply, stored)) {
    return RedisRecordDamaged();
  }
  return read;
}

}  // namespace idempotency::internal
