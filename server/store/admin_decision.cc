#include "server/store/admin_decision.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "server/store/limits.h"
#include "server/store/same_request.h"

namespace idempotency::internal {
namespace {

// The time-ordered id of `at` whose other bits are all `rest`.
RecordId IdAt(absl::Time at, std::uint8_t rest) {
  const std::int64_t millis = std::clamp<std::int64_t>(absl::ToUnixMillis(at), 0, (1LL << 47) - 1);
  Uuid::Bytes bytes;
  bytes.fill(rest);
  for (int i = 0; i < 6; ++i) bytes[i] = static_cast<std::uint8_t>(millis >> (40 - 8 * i));
  return RecordId(bytes);
}

// The last time-ordered id.
RecordId LastOrdered() { return IdAt(absl::InfiniteFuture(), 0xFF); }

// The first id behind `id` may be of a key of any age; those of time-ordered keys that cannot
// have the age are skipped. A new record's key is at most a window older than the record, and
// at most kMaxKeyAhead younger. kMaxRetention is the longest window of a namespace; the one that
// the record was reserved with is not known here.
RecordId SkipByAge(const ListOp& op, RecordId id) {
  if (op.created_after) {
    id = std::max(
        id, std::min(IdAt(*op.created_after - limits::kMaxRetention - limits::kClockStepMargin, 0),
                     LastOrdered()));
  }
  if (op.created_before &&
      IdAt(*op.created_before + limits::kMaxKeyAhead + limits::kClockStepMargin, 0xFF) < id) {
    id = std::max(id, LastOrdered());
  }
  return id;
}

constexpr std::string_view StateName(RecordState state) {
  switch (state) {
    case RecordState::kReserved:
      return "RESERVED";
    case RecordState::kCompleted:
      return "COMPLETED";
    case RecordState::kReleased:
      return "RELEASED";
    case RecordState::kUnknown:
      break;
  }
  return "UNKNOWN";
}

absl::Status NotFound() {
  return MakeError(Reason::kRecordNotFound, "there is no such record, or it has expired");
}

// With the record's state, so that the caller need not read it again.
absl::Status Refused(Reason reason, const Record& record, std::string_view what) {
  ErrorDetails details;
  details.metadata = {{"state", std::string(StateName(record.state))},
                      {"attempt", absl::StrCat(record.attempt)}};
  return MakeError(reason,
                   absl::StrCat("the record is ", AbslView(StateName(record.state)), ", attempt ",
                                record.attempt, ": ", AbslView(what)),
                   std::move(details));
}

bool IsSettledSo(const ResolveOp& op, const StoredRecord& stored) {
  const Record& record = stored.record;
  if (record.attempt != op.expected_attempt) return false;
  if (!op.reply) {
    return record.state == RecordState::kReleased && record.release_reason == op.note.reason;
  }
  return record.state == RecordState::kCompleted && record.reply &&
         IsSameReply(stored.completed_digest.value_or(record.reply->digest), op);
}

absl::Status CheckSettleable(const ResolveOp& op, const Record& record, absl::Time now) {
  if (record.attempt != op.expected_attempt ||
      (op.expected_state && record.state != *op.expected_state)) {
    return Refused(Reason::kRecordChanged, record, "not as expected; read it again and decide");
  }
  if (record.state != RecordState::kReserved && record.state != RecordState::kUnknown) {
    return Refused(Reason::kRecordChanged, record, "it is settled already");
  }
  if (record.state == RecordState::kReserved && now < record.lease_expires_at && !op.force) {
    return Refused(Reason::kForceRequired, record,
                   "its lease is live, so the attempt may be running; wait for the end of the "
                   "lease, or set `force`");
  }
  return absl::OkStatus();
}

}  // namespace

ListWalk WalkOf(const ListOp& op) {
  if (op.parent) return ListWalk::kChildren;
  if (op.state == RecordState::kUnknown) return ListWalk::kUnknown;
  return op.scope ? ListWalk::kScope : ListWalk::kNamespace;
}

std::optional<RecordPlace> FirstPlace(const ListOp& op) {
  if (WalkOf(op) == ListWalk::kNamespace) return op.after;
  const RecordPlace after = op.after.value_or(RecordPlace());
  return RecordPlace{after.scope, SkipByAge(op, after.id)};
}

int VisitLimit(const ListOp& op) {
  const ListWalk walk = WalkOf(op);
  const bool filtered = walk == ListWalk::kChildren || op.operation || op.created_after ||
                        op.created_before || (op.state && walk != ListWalk::kUnknown) ||
                        (op.scope && walk != ListWalk::kScope);
  return filtered ? limits::kMaxListVisited : op.limit;
}

bool IsListed(const ListOp& op, const Record& record, absl::Time now) {
  return !IsForgotten(record, now) && record.key.name_space == op.name_space &&
         (!op.scope || record.key.scope == *op.scope) &&
         (!op.operation || record.key.operation == *op.operation) &&
         (!op.state || record.state == *op.state) &&
         (!op.created_after || record.created_at >= *op.created_after) &&
         (!op.created_before || record.created_at < *op.created_before) &&
         (!op.parent || record.parent == op.parent);
}

std::int64_t AuditPageMaker::Place(const AuditOp& op) {
  constexpr std::int64_t kBehindAll = std::numeric_limits<std::int64_t>::max();
  return op.newest_first && op.after == 0 ? kBehindAll : op.after;
}

int AuditPageMaker::ReadLimit(const AuditOp& op) {
  return (op.record_id ? limits::kMaxAuditVisited : op.limit) + 1;
}

bool AuditPageMaker::Add(AuditEntry entry) {
  const std::int64_t place = Place(op_);
  if (op_.newest_first ? entry.sequence >= place : entry.sequence <= place) return true;
  const bool full = page_.entries.size() == static_cast<std::size_t>(op_.limit);
  if (full || visited_ == ReadLimit(op_) - 1) {
    page_.next = last_;
    return false;
  }
  ++visited_;
  last_ = entry.sequence;
  if (!op_.record_id || *op_.record_id == entry.record_id) {
    page_.entries.push_back(std::move(entry));
  }
  return true;
}

ResolveDecision DecideResolve(const ResolveOp& op, absl::Time now,
                              const std::optional<StoredRecord>& stored) {
  if (!stored) return {false, {}, NotFound()};
  const Record& record = stored->record;
  if (record.key != op.key) return {false, {}, RecordIdCollision()};
  if (IsForgotten(record, now)) return {false, {}, NotFound()};
  Resolution resolution;
  resolution.before = record.state;
  resolution.state = op.reply ? RecordState::kCompleted : RecordState::kReleased;
  resolution.attempt = record.attempt;
  resolution.expires_at = record.expires_at;
  if (IsSettledSo(op, *stored)) {
    resolution.repeated = true;
    return {false, {}, resolution};
  }
  if (absl::Status may = CheckSettleable(op, record, now); !may.ok()) return {false, {}, may};
  resolution.expires_at = std::max(record.expires_at, WholeMicroseconds(now + op.retention));
  return {!op.validate_only, {record.token, record.attempt}, resolution};
}

bool NeedsForce(const Record& record, absl::Time now) {
  if (record.state == RecordState::kUnknown) return true;
  if (record.state != RecordState::kReserved) return false;
  return record.on_lease_expiry == LeaseExpiry::kRequireRecovery || now < record.lease_expires_at;
}

bool IsTarget(const PurgeOp& op, const Record& record) {
  return !op.created_before || record.created_at < *op.created_before;
}

absl::Status CheckPurge(const PurgeOp& op, absl::Time now,
                        const std::optional<StoredRecord>& stored) {
  if (!stored) return NotFound();
  const Record& record = stored->record;
  if (op.key && record.key != *op.key) return RecordIdCollision();
  if (IsForgotten(record, now)) return NotFound();
  if ((op.expected_state && record.state != *op.expected_state) ||
      (op.expected_attempt && record.attempt != *op.expected_attempt)) {
    return Refused(Reason::kRecordChanged, record, "not as expected; read it again and decide");
  }
  if (op.force || !NeedsForce(record, now)) return absl::OkStatus();
  return Refused(Reason::kForceRequired, record,
                 "its operation may run twice once it is forgotten; settle it with Resolve, or "
                 "set `force`");
}

absl::Duration RefusedAfterUnknown(const Record& record, absl::Time now) {
  return record.expires_at > now ? record.expires_at - now : record.expires_at - record.created_at;
}

TombstoneTimes TombstoneOf(const Record& record, absl::Duration tombstone, absl::Time now) {
  TombstoneTimes times;
  times.expires_at = std::min(record.expires_at, now);
  times.tombstone_until = WholeMicroseconds(now + tombstone);
  if (record.tombstone_until) {
    times.tombstone_until = std::max(times.tombstone_until, *record.tombstone_until);
  }
  return times;
}

AuditAction ActionOf(const ResolveOp& op) {
  return op.reply ? AuditAction::kResolvedCompleted : AuditAction::kResolvedReleased;
}

AuditAction ActionOf(const PurgeOp& op) {
  const bool leaves_tombstone = op.tombstone > absl::ZeroDuration();
  return leaves_tombstone ? AuditAction::kPurgedToTombstone : AuditAction::kPurged;
}

AuditEntry EntryFor(const Record& before, const AdminNote& note, AuditAction action, bool forced,
                    absl::Time now) {
  AuditEntry entry;
  entry.at = now;
  entry.note = note;
  entry.action = action;
  entry.forced = forced;
  entry.record_id = before.id;
  entry.name_space = before.key.name_space;
  entry.state = before.state;
  entry.attempt = before.attempt;
  return entry;
}

}  // namespace idempotency::internal
