#include "server/store/decision.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "server/store/limits.h"
#include "server/store/lost_reservation.h"
#include "server/store/reply_envelope.h"
#include "server/store/same_request.h"

namespace idempotency::internal {
namespace {

// now + length, but never beyond the record's end.
absl::Time LeaseEnd(absl::Time now, absl::Duration length, absl::Time expires_at) {
  return WholeMicroseconds(std::min(now + length, expires_at));
}

absl::Duration Remaining(absl::Time until, absl::Time now) {
  return std::max(until - now, absl::ZeroDuration());
}

ReserveDecision AnswerWith(absl::StatusOr<Verdict> answer) {
  ReserveDecision decision;
  decision.action = ReserveAction::kAnswer;
  decision.answer = std::move(answer);
  return decision;
}

RowVersion RowVersionOf(const StoredRecord& stored) {
  return {stored.record.token, stored.record.attempt};
}

// Content that has not been dropped yet is dropped here.
bool ReplyIsOver(const Record& record, absl::Time now) {
  return record.reply && record.reply_expires_at && now >= *record.reply_expires_at;
}

// Of a record that the token still matches, and that is not RESERVED.
LossCause LossOf(RecordState state) {
  switch (state) {
    case RecordState::kCompleted:
      return LossCause::kCompleted;
    case RecordState::kReleased:
      return LossCause::kReleased;
    case RecordState::kReserved:
    case RecordState::kUnknown:
      break;
  }
  return LossCause::kOutcomeUnknown;
}

// A purge leaves it at the time of its own clock: another node's, or one that was set back, may not
// have reached the record's end yet.
bool IsTombstone(const Record& record) {
  return record.state == RecordState::kReleased && record.fingerprints.empty() &&
         record.tombstone_until.has_value();
}

// Whether its holder comes too late, under any policy.
bool HasEnded(const Record& record, absl::Time now) {
  return now >= record.expires_at || IsTombstone(record);
}

// Lines 2 and 3.
ReserveDecision DecideForgotten(const ReserveOp& op, absl::Time now,
                                const std::optional<StoredRecord>& stored) {
  if (stored && stored->record.tombstone_until && now < *stored->record.tombstone_until) {
    return AnswerWith(Verdict(Expired{}));
  }
  if (const auto made_at = KeyTime(op.key)) {
    if (now >= *made_at + op.window) return AnswerWith(Verdict(Expired{}));
    if (*made_at > now + limits::kMaxKeyAhead) {
      return AnswerWith(KeyTooFarAhead());
    }
  }
  if (op.only_existing) return AnswerWith(NoRoomForARecord());
  ReserveDecision decision;
  decision.grant = FirstGrant(op, now);
  decision.action = ReserveAction::kInsert;
  if (stored) {
    decision.action = ReserveAction::kStartAfresh;
    decision.expected = RowVersionOf(*stored);
    decision.grant.after_expiry = true;
  }
  return decision;
}

// How the attempt before the current grant ended. Only an attempt that was
// released leaves a reason.
PreviousAttempt BeforeGrant(const StoredRecord& stored) {
  if (stored.record.attempt == 1) return PreviousAttempt::kNone;
  if (stored.recovering) return PreviousAttempt::kOutcomeUnknown;
  return stored.record.release_reason.empty() ? PreviousAttempt::kLeaseExpired
                                              : PreviousAttempt::kReleased;
}

// How the last attempt ended, of a record that is granted again.
PreviousAttempt BeforeNextGrant(RecordState state, ReserveAction action) {
  if (action == ReserveAction::kGrantRecovery) return PreviousAttempt::kOutcomeUnknown;
  return state == RecordState::kReserved ? PreviousAttempt::kLeaseExpired
                                         : PreviousAttempt::kReleased;
}

// Line 6.
ReserveDecision DecideRepeated(const ReserveOp& op, absl::Time now, StoredRecord stored) {
  ReserveDecision decision;
  decision.expected = RowVersionOf(stored);
  Grant& grant = decision.grant;
  grant.attempt = stored.record.attempt;
  grant.recovering = stored.recovering;
  grant.created_at = stored.record.created_at;
  grant.lease_expires_at = stored.record.lease_expires_at;
  grant.expires_at = stored.record.expires_at;
  grant.checkpoint = std::move(stored.checkpoint);
  grant.labels = std::move(stored.record.labels);
  grant.previous_attempt = BeforeGrant(stored);
  grant.token = stored.record.token;
  grant.repeated = true;
  if (now < grant.lease_expires_at) {
    return AnswerWith(Verdict(ToReserved(std::move(grant), stored.record.token, now)));
  }
  grant.lease_expires_at = LeaseEnd(now, op.lease, grant.expires_at);
  decision.action = ReserveAction::kRenewLease;
  return decision;
}

// The next attempt of the same record: lines 8, 9 and 12.
ReserveDecision NextAttempt(const ReserveOp& op, absl::Time now, StoredRecord stored,
                            ReserveAction action) {
  ReserveDecision decision;
  decision.action = action;
  decision.expected = RowVersionOf(stored);
  Grant& grant = decision.grant;
  grant.attempt = stored.record.attempt + 1;
  grant.created_at = stored.record.created_at;
  grant.expires_at = stored.record.expires_at;
  if (action == ReserveAction::kGrantRecovery) {
    grant.recovering = true;
    grant.expires_at = std::max(grant.expires_at, WholeMicroseconds(now + op.retention));
  }
  grant.tombstone_until = TombstoneAfter(stored.record, grant.expires_at);
  grant.lease_expires_at = LeaseEnd(now, op.lease, grant.expires_at);
  grant.checkpoint = std::move(stored.checkpoint);
  grant.labels = std::move(stored.record.labels);
  grant.previous_attempt = BeforeNextGrant(stored.record.state, action);
  grant.took_over = stored.record.state == RecordState::kReserved;
  return decision;
}

OutcomeUnknown AfterTheLease(const Record& record) {
  OutcomeUnknown unknown;
  unknown.attempt = record.attempt;
  unknown.cause = OutcomeUnknown::Cause::kLeaseExpired;
  unknown.since = record.lease_expires_at;
  return unknown;
}

// Lines 6 to 9.
ReserveDecision DecideReserved(const ReserveOp& op, absl::Time now, StoredRecord stored) {
  if (op.request_token && op.request_token == stored.request_token) {
    return DecideRepeated(op, now, std::move(stored));
  }
  const Record& record = stored.record;
  if (now < record.lease_expires_at) {
    return AnswerWith(Verdict(InFlight{record.lease_expires_at - now, record.attempt}));
  }
  if (record.on_lease_expiry == LeaseExpiry::kTakeOver) {
    return NextAttempt(op, now, std::move(stored), ReserveAction::kGrant);
  }
  if (op.recover) return NextAttempt(op, now, std::move(stored), ReserveAction::kGrantRecovery);
  OutcomeUnknown unknown = AfterTheLease(record);
  unknown.marked = true;
  ReserveDecision decision = AnswerWith(Verdict(std::move(unknown)));
  decision.action = ReserveAction::kMarkUnknown;
  decision.expected = RowVersionOf(stored);
  return decision;
}

// Line 5.
ReserveDecision DecideCompleted(absl::Time now, StoredRecord stored) {
  Record& record = stored.record;
  if (!record.reply || !record.completed_at) {
    return AnswerWith(MakeError(Reason::kRecordDamaged, "the completed record's reply is missing"));
  }
  if (ReplyIsOver(record, now)) {
    absl::StatusOr<EncodedReply> rest = StoredWithoutContent(*record.reply);
    if (!rest.ok()) return AnswerWith(rest.status());
    record.reply = *std::move(rest);
  }
  return AnswerWith(
      Verdict(Replay{std::move(*record.reply), *record.completed_at, record.expires_at,
                     record.attempt, std::move(record.labels), record.token}));
}

// Lines 10 to 12.
ReserveDecision DecideReleased(const ReserveOp& op, absl::Time now, StoredRecord stored) {
  if (op.request_token && op.request_token == stored.request_token) {
    return AnswerWith(ReservationLostBecause(LossCause::kReleased));
  }
  const Record& record = stored.record;
  if (now < record.lease_expires_at) {
    return AnswerWith(
        Verdict(InFlight{record.lease_expires_at - now, record.attempt, /*paused=*/true}));
  }
  return NextAttempt(op, now, std::move(stored), ReserveAction::kGrant);
}

// Lines 5 to 12: the record is not forgotten, and belongs to the same request.
ReserveDecision DecideSameRequest(const ReserveOp& op, absl::Time now, StoredRecord stored) {
  switch (stored.record.state) {
    case RecordState::kCompleted:
      return DecideCompleted(now, std::move(stored));
    case RecordState::kReserved:
      return DecideReserved(op, now, std::move(stored));
    case RecordState::kUnknown:
      if (!op.recover) return AnswerWith(Verdict(ToOutcomeUnknown(stored.record)));
      return NextAttempt(op, now, std::move(stored), ReserveAction::kGrantRecovery);
    case RecordState::kReleased:
      break;
  }
  return DecideReleased(op, now, std::move(stored));
}

}  // namespace

bool IsForgotten(RecordState state, LeaseExpiry policy, absl::Time expires_at, absl::Time now) {
  if (now < expires_at || state == RecordState::kUnknown) return false;
  return !(state == RecordState::kReserved && policy == LeaseExpiry::kRequireRecovery);
}

bool IsForgotten(const Record& record, absl::Time now) {
  return IsTombstone(record) ||
         IsForgotten(record.state, record.on_lease_expiry, record.expires_at, now);
}

absl::Time WholeMicroseconds(absl::Time time) {
  return absl::FromUnixMicros(absl::ToUnixMicros(time));
}

absl::Duration WholeMicroseconds(absl::Duration duration) {
  return absl::Microseconds(absl::ToInt64Microseconds(duration));
}

absl::Status RecordIdCollision() {
  return MakeError(Reason::kRecordIdCollision,
                   "another key has this record id; nothing was changed");
}

absl::Status FingerprintUnknown() {
  return MakeError(
      Reason::kFingerprintUnknown,
      "the record contains none of the fingerprint versions sent; send the older version too");
}

absl::Status KeyTooFarAhead() {
  return MakeError(
      Reason::kKeyInvalid,
      absl::StrCat("the key was made more than ", absl::ToInt64Hours(limits::kMaxKeyAhead),
                   " hours ahead of the store's clock; check the clock of the machine "
                   "that generates keys"));
}

Grant FirstGrant(const ReserveOp& op, absl::Time now) {
  Grant grant;
  grant.attempt = 1;
  grant.labels = op.labels;
  grant.created_at = now;
  grant.expires_at = now + op.retention;
  if (const auto made_at = KeyTime(op.key)) {
    grant.expires_at = std::max(now, *made_at) + std::max(op.retention, op.window);
  }
  grant.expires_at = WholeMicroseconds(grant.expires_at);
  grant.lease_expires_at = LeaseEnd(now, op.lease, grant.expires_at);
  if (op.reply_retention) grant.reply_expires_at = WholeMicroseconds(now + *op.reply_retention);
  if (op.tombstone > absl::ZeroDuration()) {
    grant.tombstone_until = WholeMicroseconds(grant.expires_at + op.tombstone);
  }
  return grant;
}

Reserved ToReserved(Grant grant, const Uuid& token, absl::Time now) {
  Reserved reserved;
  reserved.token = token;
  reserved.attempt = grant.attempt;
  reserved.lease_remaining = Remaining(grant.lease_expires_at, now);
  reserved.recovering = grant.recovering;
  reserved.checkpoint = std::move(grant.checkpoint);
  reserved.created_at = grant.created_at;
  reserved.expires_at = grant.expires_at;
  reserved.labels = std::move(grant.labels);
  reserved.previous_attempt = grant.previous_attempt;
  reserved.took_over = grant.took_over;
  reserved.after_expiry = grant.after_expiry;
  reserved.repeated = grant.repeated;
  return reserved;
}

std::optional<absl::Time> TombstoneAfter(const Record& record, absl::Time expires_at) {
  if (!record.tombstone_until) return std::nullopt;
  return expires_at + (*record.tombstone_until - record.expires_at);
}

ReserveDecision DecideReserve(const ReserveOp& op, absl::Time now,
                              std::optional<StoredRecord> record) {
  if (!record) return DecideForgotten(op, now, record);
  if (record->record.key != op.key) return AnswerWith(RecordIdCollision());
  if (IsForgotten(record->record, now)) return DecideForgotten(op, now, record);
  switch (CompareRequest(record->record.fingerprints, op)) {
    case FingerprintMatch::kNothingInCommon:
      return AnswerWith(FingerprintUnknown());
    case FingerprintMatch::kDifferent:
      return AnswerWith(Verdict(Mismatch{record->record.attempt}));
    case FingerprintMatch::kSame:
      break;
  }
  return DecideSameRequest(op, now, std::move(*record));
}

CompleteDecision DecideComplete(const CompleteOp& op, absl::Time now,
                                const std::optional<StoredRecord>& record) {
  if (!record) return {false, ReservationLostBecause(LossCause::kRecordExpired)};
  const Record& stored = record->record;
  if (stored.key != op.key) return {false, RecordIdCollision()};
  if (HasEnded(stored, now)) return {false, ReservationLostBecause(LossCause::kRecordExpired)};
  if (stored.token != op.token) return {false, ReservationLostBecause(LossCause::kSuperseded)};
  switch (stored.state) {
    case RecordState::kReserved:
    case RecordState::kUnknown:
      return {true, Completion{now, stored.expires_at, now >= stored.lease_expires_at, false}};
    case RecordState::kCompleted:
      break;
    case RecordState::kReleased:
      return {false, ReservationLostBecause(LossOf(stored.state))};
  }
  if (!stored.reply || !stored.completed_at ||
      !IsSameReply(record->completed_digest.value_or(stored.reply->digest), op)) {
    return {false, ReservationLostBecause(LossOf(stored.state))};
  }
  return {false, Completion{*stored.completed_at, stored.expires_at,
                            *stored.completed_at >= stored.lease_expires_at, true}};
}

std::string_view StoredReason(const ReleaseOp& op) {
  return op.reason.empty() ? kNoReleaseReason : std::string_view(op.reason);
}

OutcomeUnknown ToOutcomeUnknown(const Record& record) {
  OutcomeUnknown unknown = AfterTheLease(record);
  if (record.release_reason.empty()) return unknown;
  unknown.cause = OutcomeUnknown::Cause::kReleased;
  unknown.reason = record.release_reason;
  return unknown;
}

ReleaseDecision DecideRelease(const ReleaseOp& op, absl::Time now,
                              const std::optional<StoredRecord>& record) {
  const auto answer = [](absl::Status status) {
    return ReleaseDecision{std::nullopt, {}, std::move(status)};
  };
  if (!record) return answer(ReservationLostBecause(LossCause::kRecordExpired));
  const Record& stored = record->record;
  if (stored.key != op.key) return answer(RecordIdCollision());
  if (IsForgotten(record->record, now)) {
    return answer(ReservationLostBecause(LossCause::kRecordExpired));
  }
  if (stored.token != op.token) return answer(ReservationLostBecause(LossCause::kSuperseded));
  const RecordState wanted = op.outcome_unknown ? RecordState::kUnknown : RecordState::kReleased;
  if (stored.state == wanted) return answer(absl::OkStatus());
  if (stored.state != RecordState::kReserved) {
    return answer(ReservationLostBecause(LossOf(stored.state)));
  }
  const absl::Duration pause = op.outcome_unknown ? absl::ZeroDuration() : op.pause;
  return {wanted, LeaseEnd(now, pause, stored.expires_at), absl::OkStatus()};
}

ExtendDecision DecideExtend(const ExtendOp& op, absl::Time now,
                            const std::optional<StoredRecord>& record) {
  const auto lost = [](LossCause cause) {
    return ExtendDecision{std::nullopt, ReservationLostBecause(cause)};
  };
  if (!record) return lost(LossCause::kRecordExpired);
  const Record& stored = record->record;
  if (stored.key != op.key) return {std::nullopt, RecordIdCollision()};
  if (HasEnded(stored, now)) return lost(LossCause::kRecordExpired);
  if (record->record.token != op.token) return lost(LossCause::kSuperseded);
  if (stored.state != RecordState::kReserved) return lost(LossOf(stored.state));
  const absl::Time until =
      std::max(stored.lease_expires_at, LeaseEnd(now, op.lease, stored.expires_at));
  return {until, Extension{until - now}};
}

absl::StatusOr<Record> DecideGet(const GetOp& op, absl::Time now,
                                 std::optional<StoredRecord> record) {
  if (record && op.key && record->record.key != *op.key) return RecordIdCollision();
  if (!record || IsForgotten(record->record, now)) {
    return NoSuchRecord();
  }
  if (ReplyIsOver(record->record, now)) {
    absl::StatusOr<EncodedReply> rest = StoredWithoutContent(*record->record.reply);
    if (!rest.ok()) return rest.status();
    record->record.reply = *std::move(rest);
  }
  return std::move(record->record);
}

SweepAction DecideSweep(const SweepView& record, absl::Time now) {
  if (IsForgotten(record.state, record.on_lease_expiry, record.expires_at, now)) {
    const absl::Time known_until = record.tombstone_until.value_or(record.expires_at);
    if (now >= known_until + limits::kClockStepMargin) return SweepAction::kRemove;
    const bool entomb = record.tombstone_until && !record.entombed &&
                        now >= record.expires_at + limits::kClockStepMargin;
    return entomb ? SweepAction::kEntomb : SweepAction::kKeep;
  }
  if (record.state == RecordState::kReserved &&
      record.on_lease_expiry == LeaseExpiry::kRequireRecovery && now >= record.lease_expires_at) {
    return SweepAction::kMarkUnknown;
  }
  if (record.state == RecordState::kCompleted && !record.reply_dropped && record.reply_expires_at &&
      now >= *record.reply_expires_at) {
    return SweepAction::kDropReply;
  }
  return SweepAction::kKeep;
}

}  // namespace idempotency::internal
