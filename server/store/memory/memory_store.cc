#include "server/store/memory/memory_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "server/store/batch_weight.h"
#include "server/store/lost_reservation.h"
#include "server/store/reply_envelope.h"
#include "server/store/same_request.h"

namespace idempotency::internal {
namespace {

bool LeaseLive(const Record& record, absl::Time now) { return now < record.lease_expires_at; }

// A tombstone is, whatever the time: a clock may step back.
bool PastExpiry(const Record& record, absl::Time now) {
  if (record.state == RecordState::kReleased && record.fingerprints.empty()) return true;
  return now >= record.expires_at;
}

bool Forgotten(const Record& record, absl::Time now) {
  if (!PastExpiry(record, now)) return false;
  if (record.state == RecordState::kUnknown) return false;
  if (record.state == RecordState::kReserved &&
      record.on_lease_expiry == LeaseExpiry::kRequireRecovery) {
    return false;
  }
  return true;
}

bool ReplyIsOver(const Record& record, absl::Time now) {
  return record.reply_expires_at && now >= *record.reply_expires_at;
}

bool SameRequestToken(const ReserveOp& op, const std::optional<Uuid>& of_grant) {
  return op.request_token.has_value() && of_grant.has_value() && *op.request_token == *of_grant;
}

absl::Status IdCollision() {
  return MakeError(Reason::kRecordIdCollision, "another key has this record id");
}

absl::Status Lost(LossCause cause) { return ReservationLostBecause(cause); }

// The token still matches.
absl::Status LostBy(RecordState state) {
  if (state == RecordState::kCompleted) return Lost(LossCause::kCompleted);
  if (state == RecordState::kReleased) return Lost(LossCause::kReleased);
  return Lost(LossCause::kOutcomeUnknown);
}

PreviousAttempt HowTheLastEnded(const Record& record, bool recovering) {
  if (record.attempt == 0) return PreviousAttempt::kNone;
  if (recovering) return PreviousAttempt::kOutcomeUnknown;
  return record.state == RecordState::kReleased ? PreviousAttempt::kReleased
                                                : PreviousAttempt::kLeaseExpired;
}

// An expired lease leaves no reason.
void MarkUnknown(Record& record) {
  record.state = RecordState::kUnknown;
  record.release_reason.clear();
}

OutcomeUnknown OutcomeUnknownOf(const Record& record) {
  OutcomeUnknown unknown;
  unknown.attempt = record.attempt;
  if (!record.release_reason.empty()) unknown.cause = OutcomeUnknown::Cause::kReleased;
  unknown.reason = record.release_reason;
  unknown.since = record.lease_expires_at;
  return unknown;
}

// Gives `row` its next grant.
template <typename Row>
Reserved GrantNextAttempt(const ReserveOp& op, absl::Time now, Row& row, bool recovering) {
  Record& record = row.record;
  Reserved reserved;
  reserved.took_over = record.state == RecordState::kReserved;
  if (reserved.took_over) record.release_reason.clear();
  row.previous_attempt = HowTheLastEnded(record, recovering);
  if (recovering) record.expires_at = std::max(record.expires_at, now + op.retention);
  if (row.tombstone > absl::ZeroDuration()) {
    record.tombstone_until = record.expires_at + row.tombstone;
  }
  record.state = RecordState::kReserved;
  record.attempt += 1;
  record.lease_expires_at = std::min(now + op.lease, record.expires_at);
  record.token = Uuid::Random();
  row.request_token = op.request_token;
  row.recovering = recovering;
  reserved.token = record.token;
  reserved.attempt = record.attempt;
  reserved.lease_remaining = record.lease_expires_at - now;
  reserved.recovering = recovering;
  reserved.checkpoint = row.checkpoint;
  reserved.created_at = record.created_at;
  reserved.expires_at = record.expires_at;
  reserved.labels = record.labels;
  reserved.previous_attempt = row.previous_attempt;
  return reserved;
}

template <typename Row>
Reserved RepeatGrant(const ReserveOp& op, absl::Time now, Row& row) {
  Record& record = row.record;
  if (!LeaseLive(record, now)) {
    record.lease_expires_at = std::min(now + op.lease, record.expires_at);
  }
  Reserved reserved;
  reserved.token = record.token;
  reserved.attempt = record.attempt;
  reserved.lease_remaining = std::max(record.lease_expires_at - now, absl::ZeroDuration());
  reserved.recovering = row.recovering;
  reserved.checkpoint = row.checkpoint;
  reserved.created_at = record.created_at;
  reserved.expires_at = record.expires_at;
  reserved.labels = record.labels;
  reserved.previous_attempt = row.previous_attempt;
  reserved.repeated = true;
  return reserved;
}

}  // namespace

MemoryStore::Row* MemoryStore::Find(const RecordId& id) {
  const auto it = rows_.find(id);
  return it == rows_.end() ? nullptr : &it->second;
}

std::vector<absl::StatusOr<Verdict>> MemoryStore::Reserve(absl::Span<const ReserveOp> ops) {
  std::vector<absl::StatusOr<Verdict>> answers;
  answers.reserve(ops.size());
  MutexLock lock(mutex_);
  BatchWeight weight;
  for (const ReserveOp& op : ops) {
    answers.push_back(weight.IsFull() ? BatchWeight::NextCall() : ReserveOne(op));
    weight.Add(answers.back());
  }
  return answers;
}

std::vector<absl::StatusOr<Completion>> MemoryStore::Complete(absl::Span<const CompleteOp> ops) {
  std::vector<absl::StatusOr<Completion>> answers;
  answers.reserve(ops.size());
  MutexLock lock(mutex_);
  for (const CompleteOp& op : ops) answers.push_back(CompleteOne(op));
  return answers;
}

std::vector<absl::Status> MemoryStore::Release(absl::Span<const ReleaseOp> ops) {
  std::vector<absl::Status> answers;
  answers.reserve(ops.size());
  MutexLock lock(mutex_);
  for (const ReleaseOp& op : ops) answers.push_back(ReleaseOne(op));
  return answers;
}

std::vector<absl::StatusOr<Extension>> MemoryStore::Extend(absl::Span<const ExtendOp> ops) {
  std::vector<absl::StatusOr<Extension>> answers;
  answers.reserve(ops.size());
  MutexLock lock(mutex_);
  for (const ExtendOp& op : ops) answers.push_back(ExtendOne(op));
  return answers;
}

std::vector<absl::StatusOr<Record>> MemoryStore::Get(absl::Span<const GetOp> ops) {
  std::vector<absl::StatusOr<Record>> answers;
  answers.reserve(ops.size());
  MutexLock lock(mutex_);
  BatchWeight weight;
  for (const GetOp& op : ops) {
    answers.push_back(weight.IsFull() ? BatchWeight::NextCall() : GetOne(op));
    weight.Add(answers.back());
  }
  return answers;
}

absl::StatusOr<Verdict> MemoryStore::ReserveOne(const ReserveOp& op) {
  const absl::Time now = clock_.Now();
  Row* const row = Find(op.id);
  // 1
  if (row != nullptr && row->record.key != op.key) return IdCollision();
  // 2, 3
  if (row == nullptr || Forgotten(row->record, now)) return ReserveForgotten(op, now);
  const Record& record = row->record;
  // 4
  switch (CompareRequest(record.fingerprints, op)) {
    case FingerprintMatch::kNothingInCommon:
      return MakeError(Reason::kFingerprintUnknown, "no fingerprint version in common");
    case FingerprintMatch::kDifferent:
      return Verdict(Mismatch{record.attempt});
    case FingerprintMatch::kSame:
      break;
  }
  switch (record.state) {
    case RecordState::kCompleted: {  // 5
      absl::StatusOr<EncodedReply> reply = *record.reply;
      if (ReplyIsOver(record, now)) reply = StoredWithoutContent(*record.reply);
      if (!reply.ok()) return reply.status();
      return Verdict(Replay{*std::move(reply), *record.completed_at, record.expires_at,
                            record.attempt, record.labels, record.token});
    }
    case RecordState::kReserved:
      // 6
      if (SameRequestToken(op, row->request_token)) return Verdict(RepeatGrant(op, now, *row));
      // 7
      if (LeaseLive(record, now)) {
        return Verdict(InFlight{record.lease_expires_at - now, record.attempt});
      }
      return ReserveLapsed(op, now, *row);  // 8, 9
    case RecordState::kUnknown:             // 9
      return ReserveLapsed(op, now, *row);
    case RecordState::kReleased:
      break;
  }
  // 10
  if (SameRequestToken(op, row->request_token)) return Lost(LossCause::kReleased);
  // 11
  if (LeaseLive(record, now)) {
    return Verdict(InFlight{record.lease_expires_at - now, record.attempt, /*paused=*/true});
  }
  // 12
  return Verdict(GrantNextAttempt(op, now, *row, /*recovering=*/false));
}

absl::StatusOr<Verdict> MemoryStore::ReserveForgotten(const ReserveOp& op, absl::Time now) {
  // 2
  const Row* const tomb = Find(op.id);
  if (tomb != nullptr && now < tomb->record.expires_at + tomb->tombstone) {
    return Verdict(Expired{});
  }
  const std::optional<absl::Time> key_time = KeyTime(op.key);
  // 2: at the age of exactly one window a key is outside it, since its record
  // may have been forgotten at this very instant.
  if (key_time && now - *key_time >= op.window) return Verdict(Expired{});
  if (key_time && *key_time - now > limits::kMaxKeyAhead) {
    return MakeError(Reason::kKeyInvalid, "the key was made too far ahead");
  }
  if (op.only_existing) return NoRoomForARecord();
  // 3
  Row row;
  row.record.id = op.id;
  row.record.key = op.key;
  row.record.fingerprints = op.fingerprints;
  row.record.on_lease_expiry = op.on_lease_expiry;
  row.record.parent = op.parent;
  row.record.labels = op.labels;
  row.record.created_at = now;
  row.record.expires_at =
      key_time ? std::max(now, *key_time) + std::max(op.retention, op.window) : now + op.retention;
  if (op.reply_retention) row.record.reply_expires_at = now + *op.reply_retention;
  row.tombstone = op.tombstone;
  row.record.state = RecordState::kReleased;
  Reserved reserved = GrantNextAttempt(op, now, row, /*recovering=*/false);
  reserved.after_expiry = !rows_.insert_or_assign(op.id, std::move(row)).second;
  return Verdict(std::move(reserved));
}

absl::StatusOr<Verdict> MemoryStore::ReserveLapsed(const ReserveOp& op, absl::Time now, Row& row) {
  Record& record = row.record;
  // 8
  if (record.state == RecordState::kReserved && record.on_lease_expiry == LeaseExpiry::kTakeOver) {
    return Verdict(GrantNextAttempt(op, now, row, /*recovering=*/false));
  }
  // 9
  if (op.recover) return Verdict(GrantNextAttempt(op, now, row, /*recovering=*/true));
  const bool marks = record.state == RecordState::kReserved;
  if (marks) MarkUnknown(record);
  OutcomeUnknown unknown = OutcomeUnknownOf(record);
  unknown.marked = marks;
  return Verdict(std::move(unknown));
}

absl::StatusOr<Completion> MemoryStore::CompleteOne(const CompleteOp& op) {
  const absl::Time now = clock_.Now();
  Row* const row = Find(op.id);
  if (row == nullptr) return Lost(LossCause::kRecordExpired);
  Record& record = row->record;
  if (record.key != op.key) return IdCollision();
  if (PastExpiry(record, now)) return Lost(LossCause::kRecordExpired);
  if (record.token != op.token) return Lost(LossCause::kSuperseded);
  Completion completion;
  if (record.state == RecordState::kReserved || record.state == RecordState::kUnknown) {
    record.state = RecordState::kCompleted;
    record.reply = op.reply;
    row->completed_digest = op.reply.digest;
    record.completed_at = now;
  } else if (record.state == RecordState::kCompleted && IsSameReply(row->completed_digest, op)) {
    completion.repeated = true;
  } else {
    return LostBy(record.state);
  }
  completion.completed_at = *record.completed_at;
  completion.expires_at = record.expires_at;
  completion.lease_overrun = *record.completed_at >= record.lease_expires_at;
  return completion;
}

absl::Status MemoryStore::ReleaseOne(const ReleaseOp& op) {
  const absl::Time now = clock_.Now();
  Row* const row = Find(op.id);
  if (row == nullptr) return Lost(LossCause::kRecordExpired);
  Record& record = row->record;
  if (record.key != op.key) return IdCollision();
  if (Forgotten(record, now)) return Lost(LossCause::kRecordExpired);
  if (record.token != op.token) return Lost(LossCause::kSuperseded);
  const RecordState wanted = op.outcome_unknown ? RecordState::kUnknown : RecordState::kReleased;
  if (record.state == wanted) return absl::OkStatus();
  if (record.state != RecordState::kReserved) return LostBy(record.state);
  record.state = wanted;
  record.release_reason = op.reason.empty() ? std::string(kNoReleaseReason) : op.reason;
  const absl::Time until = op.outcome_unknown ? now : now + op.pause;
  record.lease_expires_at = std::min(until, record.expires_at);
  return absl::OkStatus();
}

absl::StatusOr<Extension> MemoryStore::ExtendOne(const ExtendOp& op) {
  const absl::Time now = clock_.Now();
  Row* const row = Find(op.id);
  if (row == nullptr) return Lost(LossCause::kRecordExpired);
  Record& record = row->record;
  if (record.key != op.key) return IdCollision();
  if (PastExpiry(record, now)) return Lost(LossCause::kRecordExpired);
  if (record.token != op.token) return Lost(LossCause::kSuperseded);
  if (record.state != RecordState::kReserved) return LostBy(record.state);
  const absl::Time wanted = std::min(now + op.lease, record.expires_at);
  record.lease_expires_at = std::max(record.lease_expires_at, wanted);
  if (op.checkpoint) row->checkpoint = *op.checkpoint;
  return Extension{record.lease_expires_at - now};
}

absl::StatusOr<Record> MemoryStore::GetOne(const GetOp& op) {
  const Row* const row = Find(op.id);
  if (row != nullptr && op.key && row->record.key != *op.key) return IdCollision();
  const absl::Time now = clock_.Now();
  if (row == nullptr || Forgotten(row->record, now)) {
    return NoSuchRecord();
  }
  Record record = row->record;
  if (record.reply && ReplyIsOver(record, now)) {
    absl::StatusOr<EncodedReply> rest = StoredWithoutContent(*record.reply);
    if (!rest.ok()) return rest.status();
    record.reply = *std::move(rest);
  }
  return record;
}

absl::StatusOr<SweepProgress> MemoryStore::Sweep(const SweepOp& op) {
  SweepProgress progress;
  MutexLock lock(mutex_);
  const absl::Time now = clock_.Now();
  auto it = op.after ? rows_.upper_bound(*op.after) : rows_.begin();
  const auto end = op.until ? rows_.upper_bound(*op.until) : rows_.end();
  while (it != end && progress.visited < op.limit) {
    progress.visited += 1;
    progress.next = it->first;
    it = SweepOne(it, now, progress) ? rows_.erase(it) : std::next(it);
  }
  if (it == end) progress.next = op.until;
  return progress;
}

bool MemoryStore::SweepOne(std::map<RecordId, Row>::iterator it, absl::Time now,
                           SweepProgress& progress) {
  Row& row = it->second;
  Record& record = row.record;
  if (Forgotten(record, now)) {
    // A row is kept for longer than it is needed: the clock may step back.
    const absl::Time swept_at = record.expires_at + clock_step_margin_;
    if (now >= swept_at + row.tombstone) {
      progress.removed += 1;
      return true;
    }
    if (record.fingerprints.empty() || row.tombstone == absl::ZeroDuration()) return false;
    if (now < swept_at) return false;
    progress.entombed += 1;
    Row tomb;
    tomb.record.id = record.id;
    tomb.record.key = record.key;
    tomb.record.state = RecordState::kReleased;
    tomb.record.created_at = record.created_at;
    tomb.record.expires_at = record.expires_at;
    tomb.tombstone = row.tombstone;
    row = std::move(tomb);
    return false;
  }
  if (record.state == RecordState::kReserved &&
      record.on_lease_expiry == LeaseExpiry::kRequireRecovery && !LeaseLive(record, now)) {
    MarkUnknown(record);
    progress.marked_unknown += 1;
  }
  if (record.state == RecordState::kCompleted && ReplyIsOver(record, now)) {
    const absl::StatusOr<EncodedReply> rest = StoredWithoutContent(*record.reply);
    if (rest.ok() && !row.reply_dropped) {
      record.reply = *rest;
      row.reply_dropped = true;
      progress.replies_dropped += 1;
    }
  }
  return false;
}

absl::StatusOr<UsageStep> MemoryStore::MeasureUsage(const UsageOp& op) {
  UsageStep step;
  MutexLock lock(mutex_);
  const absl::Time now = clock_.Now();
  for (auto it = op.after ? rows_.upper_bound(op.after->id) : rows_.begin(); it != rows_.end();
       ++it) {
    if (step.visited == op.limit) return step;
    step.visited += 1;
    const Record& record = it->second.record;
    step.next = RecordPlace{record.key.scope, it->first};
    if (record.key.name_space != op.name_space || Forgotten(record, now)) continue;
    step.usage.records += 1;
    if (!record.reply) continue;
    step.usage.reply_bytes += static_cast<std::int64_t>(record.reply->bytes.size());
  }
  step.next.reset();
  return step;
}

absl::StatusOr<StoreGauges> MemoryStore::Inspect() {
  StoreGauges gauges{absl::ZeroDuration(), 0};
  MutexLock lock(mutex_);
  const absl::Time now = clock_.Now();
  for (const auto& [id, row] : rows_) {
    if (row.record.state == RecordState::kUnknown &&
        *gauges.unknown_records < StoreGauges::kMaxCountedUnknown) {
      *gauges.unknown_records += 1;
    }
    if (row.record.state == RecordState::kReserved && LeaseLive(row.record, now)) {
      gauges.oldest_reserved_age =
          std::max(*gauges.oldest_reserved_age, now - row.record.created_at);
    }
  }
  return gauges;
}

}  // namespace idempotency::internal
