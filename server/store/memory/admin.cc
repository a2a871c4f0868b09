// The administrator's part of the reference model.
#include <algorithm>
#include <tuple>
#include <utility>

#include "grpc_idempotency/errors.h"
#include "server/store/admin_decision.h"
#include "server/store/audit_hmac.h"
#include "server/store/limits.h"
#include "server/store/memory/memory_store.h"
#include "server/store/same_request.h"

namespace idempotency::internal {
namespace {

// A row is forgotten, and what an administrator sees.
bool Visible(const Record& record, absl::Time now) {
  if (record.state == RecordState::kReleased && record.fingerprints.empty()) return false;
  if (now < record.expires_at || record.state == RecordState::kUnknown) return true;
  return record.state == RecordState::kReserved &&
         record.on_lease_expiry == LeaseExpiry::kRequireRecovery;
}

bool Matches(const ListOp& op, const Record& record) {
  if (record.key.name_space != op.name_space) return false;
  if (op.scope && record.key.scope != *op.scope) return false;
  if (op.operation && record.key.operation != *op.operation) return false;
  if (op.state && record.state != *op.state) return false;
  if (op.created_after && record.created_at < *op.created_after) return false;
  if (op.created_before && record.created_at >= *op.created_before) return false;
  return !op.parent || record.parent == op.parent;
}

// By id where the list says so, else by scope first.
bool IsBehind(const ListOp& op, const Record& record) {
  if (!op.after) return true;
  const bool by_id = op.parent || op.scope || op.state == RecordState::kUnknown;
  if (by_id) return op.after->id < record.id;
  return std::tie(op.after->scope, op.after->id) < std::tie(record.key.scope, record.id);
}

bool MayRunTwice(const Record& record, absl::Time now) {
  if (record.state == RecordState::kUnknown) return true;
  return record.state == RecordState::kReserved &&
         (now < record.lease_expires_at || record.on_lease_expiry == LeaseExpiry::kRequireRecovery);
}

absl::Status NotFound() {
  return MakeError(Reason::kRecordNotFound, "there is no such record, or it has expired");
}

}  // namespace

absl::StatusOr<RecordPage> MemoryStore::List(const ListOp& op) {
  MutexLock lock(mutex_);
  const absl::Time now = clock_.Now();
  std::vector<const Record*> found;
  for (const auto& [id, row] : rows_) {
    const Record& record = row.record;
    if (Visible(record, now) && Matches(op, record) && IsBehind(op, record)) {
      found.push_back(&record);
    }
  }
  if (!op.parent && !op.scope && op.state != RecordState::kUnknown) {
    std::sort(found.begin(), found.end(), [](const Record* a, const Record* b) {
      return std::tie(a->key.scope, a->id) < std::tie(b->key.scope, b->id);
    });
  }
  RecordPage page;
  for (const Record* const record : found) {
    if (page.records.size() == static_cast<std::size_t>(op.limit)) {
      page.next = RecordPlace{page.records.back().key.scope, page.records.back().id};
      break;
    }
    page.records.push_back(*record);
    page.records.back().reply.reset();
  }
  return page;
}

absl::StatusOr<Resolution> MemoryStore::Resolve(const ResolveOp& op) {
  MutexLock lock(mutex_);
  const absl::Time now = clock_.Now();
  Row* const row = Find(op.id);
  if (row == nullptr) return NotFound();
  Record& record = row->record;
  if (record.key != op.key) {
    return MakeError(Reason::kRecordIdCollision, "another key has this record id");
  }
  if (!Visible(record, now)) return NotFound();
  const bool same_attempt = record.attempt == op.expected_attempt;
  Resolution resolution;
  resolution.before = record.state;
  resolution.state = op.reply ? RecordState::kCompleted : RecordState::kReleased;
  resolution.attempt = record.attempt;
  resolution.expires_at = record.expires_at;
  resolution.key_hmac = AuditHmac(audit_key_, op.key);
  if (same_attempt && record.state == resolution.state &&
      (op.reply ? IsSameReply(row->completed_digest, op)
                : record.release_reason == op.note.reason)) {
    resolution.repeated = true;
    return resolution;
  }
  if (!same_attempt || (op.expected_state && record.state != *op.expected_state) ||
      record.state == RecordState::kCompleted || record.state == RecordState::kReleased) {
    return MakeError(Reason::kRecordChanged, "the record is not as expected");
  }
  if (record.state == RecordState::kReserved && now < record.lease_expires_at && !op.force) {
    return MakeError(Reason::kForceRequired, "the lease is live");
  }
  resolution.expires_at = std::max(record.expires_at, now + op.retention);
  if (op.validate_only) return resolution;
  Note(op.note, ActionOf(op), op.force, record, now);
  record.state = resolution.state;
  record.expires_at = resolution.expires_at;
  if (row->tombstone > absl::ZeroDuration()) {
    record.tombstone_until = record.expires_at + row->tombstone;
  }
  record.token = op.token;
  if (op.reply) {
    record.reply = op.reply;
    row->completed_digest = op.reply->digest;
    record.completed_at = now;
  } else {
    record.release_reason = op.note.reason;
    record.lease_expires_at = now;
  }
  return resolution;
}

absl::StatusOr<PurgeStep> MemoryStore::Purge(const PurgeOp& op) {
  MutexLock lock(mutex_);
  const absl::Time now = clock_.Now();
  if (op.key) return PurgeOne(op, now);
  std::vector<std::pair<std::string, RecordId>> target;
  for (const auto& [id, row] : rows_) {
    const Record& record = row.record;
    if (record.key.name_space != op.name_space) continue;
    if (op.scope && record.key.scope != *op.scope) continue;
    if (op.created_before && record.created_at >= *op.created_before) continue;
    const std::pair<std::string, RecordId> place(record.key.scope, id);
    if (!op.after || std::make_pair(op.after->scope, op.after->id) < place) {
      target.push_back(place);
    }
  }
  std::sort(target.begin(), target.end());
  PurgeStep step;
  if (target.size() > static_cast<std::size_t>(op.limit)) {
    target.resize(static_cast<std::size_t>(op.limit));
    step.next = RecordPlace{target.back().first, target.back().second};
  }
  for (const auto& [scope, id] : target) {
    if (MayRunTwice(Find(id)->record, now) && !op.force) {
      step.refused += 1;
    } else {
      step.purged.push_back(id);
      if (!op.validate_only) Forget(op, id, now);
    }
  }
  return step;
}

absl::StatusOr<PurgeStep> MemoryStore::PurgeOne(const PurgeOp& op, absl::Time now) {
  const RecordId id = RecordIdFor(*op.key);
  const Row* const row = Find(id);
  if (row == nullptr || !Visible(row->record, now)) return NotFound();
  if (row->record.key != *op.key) {
    return MakeError(Reason::kRecordIdCollision, "another key has this record id");
  }
  const Record& record = row->record;
  if (record.state != op.expected_state.value_or(record.state) ||
      record.attempt != op.expected_attempt.value_or(record.attempt)) {
    return MakeError(Reason::kRecordChanged, "not as expected");
  }
  if (MayRunTwice(row->record, now) && !op.force) {
    return MakeError(Reason::kForceRequired, "the operation may run twice");
  }
  PurgeStep step;
  step.key_hmac = AuditHmac(audit_key_, *op.key);
  step.before = record.state;
  step.attempt = record.attempt;
  step.purged.push_back(id);
  if (!op.validate_only) Forget(op, id, now);
  return step;
}

void MemoryStore::Forget(const PurgeOp& op, const RecordId& id, absl::Time now) {
  Row& row = rows_.at(id);
  const bool entomb = op.tombstone > absl::ZeroDuration();
  Note(op.note, ActionOf(op), op.force, row.record, now);
  if (!entomb) {
    rows_.erase(id);
    return;
  }
  LeaveTombstone(row, op.tombstone, now);
}

void MemoryStore::LeaveTombstone(Row& row, absl::Duration tombstone, absl::Time now) {
  const Record& record = row.record;
  Row tomb;
  tomb.record.id = record.id;
  tomb.record.key = record.key;
  tomb.record.state = RecordState::kReleased;
  tomb.record.created_at = record.created_at;
  tomb.record.expires_at = std::min(record.expires_at, now);
  const absl::Time known_until = record.expires_at + row.tombstone;
  tomb.tombstone = now + tombstone - tomb.record.expires_at;
  if (row.tombstone > absl::ZeroDuration()) {
    tomb.tombstone = std::max(tomb.tombstone, known_until - tomb.record.expires_at);
  }
  row = std::move(tomb);
}

absl::StatusOr<EndUnknownStep> MemoryStore::EndUnknown(const EndUnknownOp& op) {
  EndUnknownStep step;
  MutexLock lock(mutex_);
  const absl::Time now = clock_.Now();
  for (auto it = op.after ? rows_.upper_bound(*op.after) : rows_.begin(); it != rows_.end(); ++it) {
    const Record& record = it->second.record;
    if (record.state != RecordState::kUnknown || record.key.name_space != op.name_space) continue;
    if (step.visited == op.limit) return step;
    step.visited += 1;
    step.next = it->first;
    if (now < record.lease_expires_at + op.life) continue;
    const absl::Duration refused =
        record.expires_at > now ? record.expires_at - now : record.expires_at - record.created_at;
    LeaveTombstone(it->second, refused, now);
    step.ended += 1;
  }
  step.next.reset();
  return step;
}

std::vector<StoredContent> MemoryStore::ReadContents(const ResealOp& op, ResealStep& step) {
  MutexLock lock(mutex_);
  std::vector<std::pair<std::string, RecordId>> places;
  for (const auto& [id, row] : rows_) {
    if (row.record.key.name_space != op.name_space) continue;
    std::pair<std::string, RecordId> place(row.record.key.scope, id);
    if (!op.after || std::make_pair(op.after->scope, op.after->id) < place) {
      places.push_back(std::move(place));
    }
  }
  std::sort(places.begin(), places.end());
  std::vector<StoredContent> contents;
  std::size_t bytes = 0;
  for (const auto& [scope, id] : places) {
    if (contents.size() == static_cast<std::size_t>(op.limit) ||
        bytes >= limits::kMaxResealStepBytes) {
      step.next = RecordPlace{contents.back().key.scope, contents.back().id};
      break;
    }
    const Row& row = rows_.at(id);
    StoredContent content{
        id,           row.record.key, row.record.token, row.record.fingerprints, row.record.reply,
        std::nullopt, row.checkpoint};
    if (row.reply_dropped) content.completed_digest = row.completed_digest;
    if (content.reply) bytes += content.reply->bytes.size();
    contents.push_back(std::move(content));
  }
  step.examined = static_cast<std::int64_t>(contents.size());
  return contents;
}

const Record* MemoryStore::ReplaceContent(const ContentReplacement& replacement) {
  const auto& [before, after] = replacement;
  Row* const row = Find(before.id);
  if (row == nullptr || row->record.token != before.token) return nullptr;
  if (after.reply && !(row->record.reply == before.reply)) return nullptr;
  if (after.checkpoint && row->checkpoint != before.checkpoint) return nullptr;
  if (after.reply) {
    row->record.reply = after.reply;
    if (!row->reply_dropped) row->completed_digest = after.reply->digest;
  }
  if (after.checkpoint) row->checkpoint = *after.checkpoint;
  return &row->record;
}

absl::StatusOr<ResealStep> MemoryStore::Reseal(const ResealOp& op) {
  if (op.sealer == nullptr) return NothingIsSealed();
  ResealStep step;
  const std::vector<ContentReplacement> replacements =
      ResealAll(*op.sealer, ReadContents(op, step));
  MutexLock lock(mutex_);
  const Record* last = nullptr;
  for (const ContentReplacement& replacement : replacements) {
    if (op.validate_only) {
      step.resealed.push_back(replacement.before.id);
      continue;
    }
    const Record* const record = ReplaceContent(replacement);
    if (record == nullptr) {
      step.busy += 1;
      continue;
    }
    step.resealed.push_back(record->id);
    if (last == nullptr || last->id < record->id) last = record;
  }
  if (last == nullptr) return step;
  Note(op.note, AuditAction::kResealed, /*forced=*/false, *last, clock_.Now()).records =
      static_cast<std::int64_t>(step.resealed.size());
  return step;
}

AuditEntry& MemoryStore::Note(const AdminNote& note, AuditAction action, bool forced,
                              const Record& before, absl::Time now) {
  AuditEntry entry;
  entry.sequence = static_cast<std::int64_t>(audit_.size()) + 1;
  entry.at = now;
  entry.note = note;
  entry.action = action;
  entry.forced = forced;
  entry.record_id = before.id;
  entry.name_space = before.key.name_space;
  entry.key_hmac = AuditHmac(audit_key_, before.key);
  entry.state = before.state;
  entry.attempt = before.attempt;
  return audit_.emplace_back(std::move(entry));
}

absl::StatusOr<AuditPage> MemoryStore::ReadAudit(const AuditOp& op) {
  MutexLock lock(mutex_);
  AuditPageMaker page(op);
  const auto add = [&](const AuditEntry& entry) {
    return entry.name_space != op.name_space || page.Add(entry);
  };
  if (op.newest_first) {
    for (auto entry = audit_.rbegin(); entry != audit_.rend() && add(*entry); ++entry) {
    }
  } else {
    for (auto entry = audit_.begin(); entry != audit_.end() && add(*entry); ++entry) {
    }
  }
  return std::move(page).Take();
}

}  // namespace idempotency::internal
