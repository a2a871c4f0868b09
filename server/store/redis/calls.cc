#include "server/store/redis/calls.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/sha256.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint.h"
#include "server/store/lost_reservation.h"
#include "server/store/redis/record.h"
#include "server/store/redis/slots.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

std::string Micros(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Microseconds(duration));
}

constexpr std::string_view Flag(bool value) { return value ? "1" : "0"; }

absl::Status Lost(std::string_view cause) {
  for (const LossCause known : {LossCause::kSuperseded, LossCause::kReleased, LossCause::kCompleted,
                                LossCause::kOutcomeUnknown}) {
    if (LossCauseName(known) == cause) return ReservationLostBecause(known);
  }
  return ReservationLostBecause(LossCause::kRecordExpired);
}

// {'failed', what, ...}
absl::Status FailureOf(RedisValue answer) {
  const std::string_view what = answer[1].text();
  if (what == "lost") return Lost(answer[2].text());
  if (what == "collision") return RecordIdCollision();
  if (what == "fingerprint") return FingerprintUnknown();
  if (what == "ahead") return KeyTooFarAhead();
  if (what == "quota") return NoRoomForARecord();
  return RedisRecordDamaged();
}

absl::Time TimeOf(RedisValue value) { return absl::FromUnixMicros(value.integer()); }
absl::Duration DurationOf(RedisValue value) { return absl::Microseconds(value.integer()); }
std::uint32_t AttemptOf(RedisValue value) { return static_cast<std::uint32_t>(value.integer()); }

absl::StatusOr<Verdict> ReservedOf(RedisValue answer) {
  Reserved reserved;
  const std::optional<Uuid> token = UuidFrom(answer[12].text());
  auto labels = UnpackRedisLabels(answer[7].text());
  if (!token || !labels) return RedisRecordDamaged();
  reserved.token = *token;
  reserved.attempt = AttemptOf(answer[1]);
  reserved.recovering = answer[2].integer() != 0;
  reserved.lease_remaining = DurationOf(answer[3]);
  reserved.created_at = TimeOf(answer[4]);
  reserved.expires_at = TimeOf(answer[5]);
  reserved.checkpoint = std::string(answer[6].text());
  reserved.labels = *std::move(labels);
  constexpr PreviousAttempt kPrevious[] = {PreviousAttempt::kNone, PreviousAttempt::kReleased,
                                           PreviousAttempt::kLeaseExpired,
                                           PreviousAttempt::kOutcomeUnknown};
  reserved.previous_attempt = kPrevious[answer[8].integer() & 3];
  reserved.took_over = answer[9].integer() != 0;
  reserved.after_expiry = answer[10].integer() != 0;
  reserved.repeated = answer[11].integer() != 0;
  return Verdict(std::move(reserved));
}

RedisVerdict ReplayOf(RedisValue answer) {
  Replay replay;
  auto labels = UnpackRedisLabels(answer[4].text());
  const std::optional<Uuid> token = UuidFrom(answer[5].text());
  const std::string_view digest = answer[6].text();
  if (!labels || !token || digest.size() != replay.reply.digest.size()) {
    return {RedisRecordDamaged()};
  }
  replay.attempt = AttemptOf(answer[1]);
  replay.completed_at = TimeOf(answer[2]);
  replay.expires_at = TimeOf(answer[3]);
  replay.labels = *std::move(labels);
  replay.token = *token;
  std::copy(digest.begin(), digest.end(), replay.reply.digest.begin());
  RedisVerdict verdict{absl::UnknownError("")};
  verdict.reply_bytes = static_cast<std::size_t>(answer[7].integer());
  replay.reply.bytes = std::string(answer[8].text());
  verdict.reply_left_out = replay.reply.bytes.size() != verdict.reply_bytes;
  verdict.reply_over = answer[9].integer() != 0;
  verdict.verdict = Verdict(std::move(replay));
  return verdict;
}

absl::StatusOr<Verdict> UnknownOf(RedisValue answer) {
  OutcomeUnknown unknown;
  unknown.attempt = AttemptOf(answer[1]);
  unknown.reason = std::string(answer[2].text());
  unknown.cause = unknown.reason.empty() ? OutcomeUnknown::Cause::kLeaseExpired
                                         : OutcomeUnknown::Cause::kReleased;
  unknown.since = TimeOf(answer[3]);
  unknown.marked = answer[4].integer() != 0;
  return Verdict(std::move(unknown));
}

absl::StatusOr<Verdict> SmallVerdictOf(RedisValue answer) {
  const std::string_view kind = answer[0].text();
  if (kind == "reserved") return ReservedOf(answer);
  if (kind == "in_flight") {
    return Verdict(InFlight{DurationOf(answer[2]), AttemptOf(answer[1]), answer[3].integer() != 0});
  }
  if (kind == "mismatch") return Verdict(Mismatch{AttemptOf(answer[1])});
  if (kind == "outcome_unknown") return UnknownOf(answer);
  if (kind == "expired") return Verdict(Expired{});
  return FailureOf(answer);
}

}  // namespace

absl::Status ToRedisCallerStatus(const absl::Status& failure) {
  if (ReasonOf(failure)) return failure;
  if (failure.code() == absl::StatusCode::kDataLoss) return RedisRecordDamaged();
  return MakeError(Reason::kStoreUnavailable,
                   "the store did not answer in time or cannot be reached; it is unknown whether "
                   "the operation happened: repeat it with the same tokens");
}

std::string RedisCalls::KeyOf(const RecordId& id) const {
  return absl::StrCat(options_.prefix, ":r:", absl::BytesToHexString(AbslView(UuidBytes(id))));
}

RedisCall RedisCalls::Script(const RedisScript& script, std::string_view key, bool confirm,
                             absl::Span<const std::string_view> arguments) const {
  const std::string now = options_.clock != nullptr ? RedisTime(options_.clock->Now()) : "";
  std::vector<std::string_view> all = {"EVALSHA", script.name, "1",
                                       key,       now,         Flag(confirm && options_.waits())};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return {RedisWire(all), RedisSlotOf(key), &script, confirm};
}

RedisCall RedisCalls::Reserve(const ReserveOp& op) const {
  const std::string key = PackRedisKey(op.key);
  const Uuid token = Uuid::Random();
  const std::optional<absl::Time> made_at = KeyTime(op.key);
  const std::string lease = Micros(op.lease);
  const std::string retention = Micros(op.retention);
  const std::string window = Micros(op.window);
  const std::string policy = absl::StrCat(static_cast<int>(ToProto(op.on_lease_expiry)));
  const std::string reply_retention = op.reply_retention ? Micros(*op.reply_retention) : "";
  const std::string tombstone = Micros(op.tombstone);
  const std::string parent = op.parent ? PackRedisKey(*op.parent) : "";
  const std::string labels = PackRedisLabels(op.labels);
  const std::string key_time = made_at ? RedisTime(*made_at) : "";
  const std::string prints = EncodeFingerprints(op.fingerprints);
  const std::string compared = EncodeFingerprints(op.compared_fingerprints);
  const std::string largest = absl::StrCat(kRedisInlineReplyBytes);
  return Script(ReserveScript(), KeyOf(op.id), /*confirm=*/true,
                {key, UuidBytes(token), op.request_token ? UuidBytes(*op.request_token) : "", lease,
                 retention, window, policy, Flag(op.recover), reply_retention, tombstone, parent,
                 labels, Flag(op.only_existing), key_time, prints, compared, largest});
}

RedisVerdict RedisCalls::VerdictOf(const absl::StatusOr<RedisReply>& reply) {
  if (!reply.ok()) return {ToRedisCallerStatus(reply.status())};
  const RedisValue answer = reply->value();
  if (answer[0].text() == "replay") return ReplayOf(answer);
  return {SmallVerdictOf(answer)};
}

RedisCall RedisCalls::Complete(const CompleteOp& op) const {
  const std::string key = PackRedisKey(op.key);
  std::string others;
  for (const auto& digest : op.other_digests) others.append(AsBytes(digest));
  return Script(CompleteScript(), KeyOf(op.id), /*confirm=*/true,
                {key, UuidBytes(op.token), AsBytes(op.reply.digest), others, op.reply.bytes});
}

absl::StatusOr<Completion> RedisCalls::CompletionOf(const absl::StatusOr<RedisReply>& reply) {
  if (!reply.ok()) return ToRedisCallerStatus(reply.status());
  const RedisValue answer = reply->value();
  if (answer[0].text() != "completed") return FailureOf(answer);
  return Completion{TimeOf(answer[1]), TimeOf(answer[2]), answer[3].integer() != 0,
                    answer[4].integer() != 0};
}

RedisCall RedisCalls::Release(const ReleaseOp& op) const {
  const std::string key = PackRedisKey(op.key);
  const std::string pause = Micros(op.pause);
  return Script(ReleaseScript(), KeyOf(op.id), /*confirm=*/true,
                {key, UuidBytes(op.token), StoredReason(op), Flag(op.outcome_unknown), pause});
}

absl::Status RedisCalls::ReleasedOf(const absl::StatusOr<RedisReply>& reply) {
  if (!reply.ok()) return ToRedisCallerStatus(reply.status());
  const RedisValue answer = reply->value();
  return answer[0].text() == "released" ? absl::OkStatus() : FailureOf(answer);
}

RedisCall RedisCalls::Extend(const ExtendOp& op) const {
  const std::string key = PackRedisKey(op.key);
  const std::string lease = Micros(op.lease);
  return Script(ExtendScript(), KeyOf(op.id), /*confirm=*/true,
                {key, UuidBytes(op.token), lease, Flag(op.checkpoint.has_value()),
                 op.checkpoint ? std::string_view(*op.checkpoint) : std::string_view()});
}

absl::StatusOr<Extension> RedisCalls::ExtensionOf(const absl::StatusOr<RedisReply>& reply) {
  if (!reply.ok()) return ToRedisCallerStatus(reply.status());
  const RedisValue answer = reply->value();
  if (answer[0].text() != "extended") return FailureOf(answer);
  return Extension{DurationOf(answer[1])};
}

RedisCall RedisCalls::Read(const RecordId& id, std::size_t largest_reply, bool confirmed) const {
  const std::string largest = absl::StrCat(largest_reply);
  return Script(ReadScript(), KeyOf(id), confirmed, {largest});
}

RedisCall RedisCalls::ChangeAs(const StoredRecord& read, bool remove,
                               absl::Span<const Field> fields, IfFull if_full) const {
  const Record& record = read.record;
  const std::string state = absl::StrCat(static_cast<int>(ToProto(record.state)));
  const std::string attempt = absl::StrCat(record.attempt);
  const std::string lease = RedisTime(record.lease_expires_at);
  const std::string expires = RedisTime(record.expires_at);
  const std::string tombstone = record.tombstone_until ? RedisTime(*record.tombstone_until) : "";
  std::vector<std::string_view> arguments = {
      state,     attempt,      UuidBytes(record.token),       lease, expires,
      tombstone, Flag(remove), Flag(if_full == IfFull::kMade)};
  for (const Field& field : fields) {
    arguments.emplace_back(field.name);
    arguments.emplace_back(field.value);
  }
  return Script(ChangeScript(), KeyOf(record.id), /*confirm=*/true, arguments);
}

RedisCall RedisCalls::Change(const StoredRecord& read, absl::Span<const Field> fields,
                             IfFull if_full) const {
  return ChangeAs(read, /*remove=*/false, fields, if_full);
}

RedisCall RedisCalls::Remove(const StoredRecord& read) const {
  return ChangeAs(read, /*remove=*/true, {}, IfFull::kMade);
}

RedisCall RedisCalls::Plain(absl::Span<const std::string_view> arguments) {
  return {RedisWire(arguments), RedisSlotOf(arguments[1])};
}

RedisCall RedisCalls::Anyway(absl::Span<const std::string_view> arguments) const {
  std::vector<std::string_view> others(arguments.begin(), arguments.end());
  others.erase(others.begin() + 1);
  return Script(AnywayScript(), arguments[1], /*confirm=*/true, others);
}

RedisCall RedisCalls::ReadClock(const std::string& key) const {
  return Script(ReadScript(), key, /*confirm=*/false, {"0"});
}

RedisCall RedisCalls::SweepLock(const std::string& owner, absl::Duration life) const {
  const std::string millis = absl::StrCat(absl::ToInt64Milliseconds(life));
  return Script(SweepLockScript(), absl::StrCat(options_.prefix, ":sweep"), /*confirm=*/false,
                {owner, millis});
}

}  // namespace idempotency::internal
