// The administrator's part of the SQLite store: each operation is one transaction.
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "server/store/admin_decision.h"
#include "server/store/sqlite/sqlite_store.h"
#include "server/store/sqlite/transaction.h"

namespace idempotency::internal {
absl::StatusOr<RecordPage> SqliteStore::List(const ListOp& op) {
  if (absl::Status placed = InPlace(); !placed.ok()) return placed;
  MutexLock lock(reader_mutex_);
  const ListWalk walk = WalkOf(op);
  const int limit = VisitLimit(op);
  std::optional<RecordPlace> after = FirstPlace(op);
  if (walk == ListWalk::kScope) after->scope = *op.scope;
  const std::string_view first_part = walk == ListWalk::kChildren ? op.parent->key : op.name_space;
  auto rows = reader_.records->Walk(walk, first_part, after, limit);
  if (!rows.ok()) return rows.status();
  const absl::Time now = Now();
  RecordPage page;
  for (SqliteRecords::WalkRow& row : rows->rows) {
    if (page.records.size() == static_cast<std::size_t>(op.limit)) return page;
    page.next = std::move(row.place);
    if (row.damaged) ++page.damaged;
    if (!row.stored || !IsListed(op, row.stored->record, now)) continue;
    page.records.push_back(std::move(row.stored->record));
    page.records.back().reply.reset();
  }
  if (!rows->more) page.next.reset();
  return page;
}

absl::StatusOr<Resolution> SqliteStore::Resolve(const ResolveOp& op) {
  if (absl::Status placed = InPlace(); !placed.ok()) return placed;
  MutexLock lock(writer_mutex_);
  SqliteTransaction transaction(writer_.connection);
  if (const absl::Status begun = transaction.Begin(); !begun.ok()) return begun;
  absl::StatusOr<Resolution> resolution = ResolveHere(op);
  if (!resolution.ok()) return resolution;
  if (const absl::Status committed = transaction.Commit(); !committed.ok()) return committed;
  return resolution;
}

absl::StatusOr<Resolution> SqliteStore::ResolveHere(const ResolveOp& op) {
  const absl::Time now = Now();
  const auto stored = writer_.records->Find(op.id, SqliteRecords::Detail::kSlim);
  if (!stored.ok()) return stored.status();
  ResolveDecision decision = DecideResolve(op, now, *stored);
  if (!decision.answer.ok()) return decision.answer;
  const auto hmac = writer_.audit->HmacOf(op.key);
  if (!hmac.ok()) return hmac.status();
  decision.answer->key_hmac = *hmac;
  if (!decision.writes) return decision.answer;
  const absl::Status written = writer_.records->Settle(op, decision, now);
  if (!written.ok()) return written;
  AuditEntry entry = EntryFor((*stored)->record, op.note, ActionOf(op), op.force, now);
  entry.key_hmac = *hmac;
  if (const absl::Status noted = writer_.audit->Append(entry); !noted.ok()) return noted;
  return decision.answer;
}

absl::StatusOr<PurgeStep> SqliteStore::Purge(const PurgeOp& op) {
  MutexLock lock(writer_mutex_);
  // Outside of the transaction: a damaged page would refuse its writes.
  const auto rows = WalkToPurge(op);
  if (!rows.ok()) return rows.status();
  std::set<RecordId> damaged;
  absl::StatusOr<PurgeStep> step = PurgeStep();
  const absl::Status purged = Transact(
      [&](absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_) {
        step = op.key ? PurgeOne(op, now) : PurgeRows(op, *rows, now, damaged);
        return step.status();
      },
      [&] { return damaged.size(); });
  if (!purged.ok()) return purged;
  return step;
}

absl::StatusOr<EndUnknownStep> SqliteStore::EndUnknown(const EndUnknownOp& op) {
  MutexLock lock(writer_mutex_);
  std::optional<RecordPlace> after;
  if (op.after) after = RecordPlace{"", *op.after};
  // Outside of the transaction: a damaged page would refuse its writes.
  const auto rows = writer_.records->Walk(ListWalk::kUnknown, op.name_space, after, op.limit);
  if (!rows.ok()) return rows.status();
  std::set<RecordId> damaged;
  absl::StatusOr<EndUnknownStep> step = EndUnknownStep();
  const absl::Status ended = Transact(
      [&](absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_) {
        step = EndUnknownRows(op, *rows, now, damaged);
        return step.status();
      },
      [&] { return damaged.size(); });
  if (!ended.ok()) return ended;
  return step;
}

absl::StatusOr<EndUnknownStep> SqliteStore::EndUnknownRows(const EndUnknownOp& op,
                                                           const SqliteRecords::WalkPage& page,
                                                           absl::Time now,
                                                           std::set<RecordId>& damaged) {
  EndUnknownStep step;
  for (const SqliteRecords::WalkRow& row : page.rows) {
    step.visited += 1;
    step.next = row.place.id;
    // A damaged one stays; a read of that record reports it.
    if (damaged.count(row.place.id) > 0) continue;
    if (!row.stored || now < row.stored->record.lease_expires_at + op.life) continue;
    const Record& record = row.stored->record;
    const absl::Status ended =
        writer_.records->LeaveTombstone(record.id, RowVersion{record.token, record.attempt},
                                        TombstoneOf(record, RefusedAfterUnknown(record, now), now));
    if (absl::IsDataLoss(ended)) {
      damaged.insert(record.id);
      return step;
    }
    if (!ended.ok()) return ended;
    step.ended += 1;
  }
  if (!page.more) step.next.reset();
  return step;
}

absl::StatusOr<SqliteRecords::WalkPage> SqliteStore::WalkToPurge(const PurgeOp& op) {
  if (op.key) return SqliteRecords::WalkPage();
  const ListWalk walk = op.scope ? ListWalk::kScope : ListWalk::kNamespace;
  std::optional<RecordPlace> after = op.after;
  if (op.scope) after = RecordPlace{*op.scope, op.after.value_or(RecordPlace()).id};
  return writer_.records->Walk(walk, op.name_space, after, op.limit);
}

absl::StatusOr<PurgeStep> SqliteStore::PurgeRows(const PurgeOp& op,
                                                 const SqliteRecords::WalkPage& page,
                                                 absl::Time now, std::set<RecordId>& damaged) {
  PurgeStep step;
  for (const SqliteRecords::WalkRow& row : page.rows) {
    if (!row.stored || damaged.count(row.place.id) > 0) {
      step.busy += 1;
    } else if (!IsTarget(op, row.stored->record)) {
      continue;
    } else if (!op.force && NeedsForce(row.stored->record, now)) {
      step.refused += 1;
    } else {
      step.purged.push_back(row.place.id);
      if (op.validate_only) continue;
      const absl::Status done = Forget(op, *row.stored, now);
      if (absl::IsDataLoss(done)) {
        damaged.insert(row.place.id);
        return step;
      }
      if (!done.ok()) return done;
    }
  }
  if (page.more) step.next = page.rows.back().place;
  return step;
}

absl::StatusOr<PurgeStep> SqliteStore::PurgeOne(const PurgeOp& op, absl::Time now) {
  const RecordId id = RecordIdFor(*op.key);
  const auto stored = writer_.records->Find(id, SqliteRecords::Detail::kSlim);
  if (!stored.ok()) return stored.status();
  if (const absl::Status may = CheckPurge(op, now, *stored); !may.ok()) return may;
  const auto hmac = writer_.audit->HmacOf(*op.key);
  if (!hmac.ok()) return hmac.status();
  PurgeStep step;
  step.key_hmac = *hmac;
  step.before = (*stored)->record.state;
  step.attempt = (*stored)->record.attempt;
  step.purged.push_back(id);
  if (op.validate_only) return step;
  if (const absl::Status done = Forget(op, **stored, now); !done.ok()) return done;
  return step;
}

absl::Status SqliteStore::Forget(const PurgeOp& op, const StoredRecord& stored, absl::Time now) {
  SqliteRecords& records = *writer_.records;
  const RowVersion expected{stored.record.token, stored.record.attempt};
  const bool entomb = op.tombstone > absl::ZeroDuration();
  const absl::Status forgotten =
      entomb ? records.LeaveTombstone(stored.record.id, expected,
                                      TombstoneOf(stored.record, op.tombstone, now))
             : records.Remove(stored.record.id, expected);
  if (!forgotten.ok()) return forgotten;
  AuditEntry entry = EntryFor(stored.record, op.note, ActionOf(op), op.force, now);
  const auto hmac = writer_.audit->HmacOf(stored.record.key);
  if (!hmac.ok()) return hmac.status();
  entry.key_hmac = *hmac;
  return writer_.audit->Append(entry);
}

absl::StatusOr<ResealStep> SqliteStore::Reseal(const ResealOp& op) {
  if (op.sealer == nullptr) return NothingIsSealed();
  if (absl::Status placed = InPlace(); !placed.ok()) return placed;
  absl::StatusOr<SqliteRecords::ContentPage> page;
  {
    MutexLock lock(reader_mutex_);
    page = reader_.records->ReadContents(op.name_space, op.after, op.limit);
  }
  if (!page.ok()) return page.status();
  ResealStep step;
  step.next = page->next;
  std::vector<StoredContent> contents;
  for (SqliteRecords::WalkRow& row : page->rows) {
    step.examined += 1;
    if (!row.stored) {
      step.damaged.push_back(row.place.id);
      continue;
    }
    Record& record = row.stored->record;
    contents.push_back({record.id, std::move(record.key), record.token,
                        std::move(record.fingerprints), std::move(record.reply),
                        row.stored->completed_digest, std::move(row.stored->checkpoint)});
  }
  const std::vector<ContentReplacement> replacements = ResealAll(*op.sealer, std::move(contents));
  if (op.validate_only) {
    for (const auto& replacement : replacements) step.resealed.push_back(replacement.before.id);
    return step;
  }
  if (replacements.empty()) return step;
  MutexLock lock(writer_mutex_);
  std::set<RecordId> damaged;
  ResealStep replaced;
  const absl::Status done = Transact(
      [&](absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_) {
        replaced = step;
        return ReplaceHere(op, replacements, now, damaged, replaced);
      },
      [&] { return damaged.size(); });
  if (!done.ok()) return done;
  replaced.damaged.insert(replaced.damaged.end(), damaged.begin(), damaged.end());
  return replaced;
}

absl::Status SqliteStore::ReplaceHere(const ResealOp& op,
                                      const std::vector<ContentReplacement>& replacements,
                                      absl::Time now, std::set<RecordId>& damaged,
                                      ResealStep& step) {
  std::optional<StoredRecord> last;
  for (const ContentReplacement& replacement : replacements) {
    if (damaged.count(replacement.before.id) > 0) continue;
    auto replaced = ReplaceContent(replacement);
    if (absl::IsDataLoss(replaced.status())) {
      damaged.insert(replacement.before.id);
      return absl::OkStatus();
    }
    if (!replaced.ok()) return replaced.status();
    if (!*replaced) {
      step.busy += 1;
      continue;
    }
    step.resealed.push_back(replacement.before.id);
    if (!last || last->record.id < replacement.before.id) last = *std::move(replaced);
  }
  if (!last) return absl::OkStatus();
  AuditEntry entry = EntryFor(last->record, op.note, AuditAction::kResealed, /*forced=*/false, now);
  const auto hmac = writer_.audit->HmacOf(last->record.key);
  if (!hmac.ok()) return hmac.status();
  entry.key_hmac = *hmac;
  entry.records = static_cast<std::int64_t>(step.resealed.size());
  return writer_.audit->Append(entry);
}

absl::StatusOr<std::optional<StoredRecord>> SqliteStore::ReplaceContent(
    const ContentReplacement& replacement) {
  const auto& [before, after] = replacement;
  SqliteRecords& records = *writer_.records;
  auto stored = records.Find(before.id, SqliteRecords::Detail::kWhole);
  if (!stored.ok() || !*stored) return stored;
  if ((*stored)->record.token != before.token ||
      (after.reply && !((*stored)->record.reply == before.reply)) ||
      (after.checkpoint && (*stored)->checkpoint != before.checkpoint)) {
    return std::optional<StoredRecord>();
  }
  if (after.reply) {
    const absl::Status replaced = records.ReplaceReply(before.id, before.token, *after.reply,
                                                       before.completed_digest.has_value());
    if (!replaced.ok()) return replaced;
  }
  if (after.checkpoint) {
    const absl::Status replaced = records.ReplaceCheckpoint(before.id, *after.checkpoint);
    if (!replaced.ok()) return replaced;
  }
  return stored;
}

absl::StatusOr<AuditPage> SqliteStore::ReadAudit(const AuditOp& op) {
  if (absl::Status placed = InPlace(); !placed.ok()) return placed;
  MutexLock lock(reader_mutex_);
  return reader_.audit->Read(op);
}

}  // namespace idempotency::internal
