#include "server/store/postgres/single_row/admin.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "core/sha256.h"
#include "grpc_idempotency/record_key.h"
#include "server/store/audit_hmac.h"
#include "server/store/decision.h"
#include "server/store/limits.h"
#include "server/store/postgres/records/audit_key.h"
#include "server/store/postgres/records/batch.h"
#include "server/store/postgres/records/operation_parameters.h"
#include "server/store/postgres/records/reply_digests.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

void AddDigests(const ReplyDigests& digests, PostgresParameters& parameters) {
  parameters.AddBytes(AsBytes(digests.reply));
  if (digests.status) {
    parameters.AddBytes(AsBytes(*digests.status));
  } else {
    parameters.AddNull();
  }
}

std::vector<RecordId> IdsOf(const std::vector<RecordPlace>& places) {
  std::vector<RecordId> ids;
  for (const RecordPlace& place : places) ids.push_back(place.id);
  return ids;
}

}  // namespace

absl::StatusOr<std::vector<RecordPlace>> SingleRowAdmin::Walk(
    ListWalk walk, const std::string& first_part, const std::optional<RecordPlace>& after,
    int limit) {
  const SingleRowStatements& statements = records_.statements();
  const RecordPlace place = after.value_or(RecordPlace());
  const bool by_scope = walk == ListWalk::kNamespace || walk == ListWalk::kScope;
  PostgresParameters parameters;
  parameters.AddBytes(first_part);
  if (by_scope) parameters.AddBytes(place.scope);
  parameters.Add(place.id);
  parameters.Add(limit);
  const PostgresStatement* statement = &statements.walk_children;
  if (walk == ListWalk::kNamespace) statement = &statements.walk_namespace;
  if (walk == ListWalk::kScope) statement = &statements.walk_scope;
  if (walk == ListWalk::kUnknown) statement = &statements.walk_unknown;
  const auto rows = records_.connection().ExecuteOne(*statement, parameters);
  if (!rows.ok()) return ToCallerStatus(rows.status());
  // Columns: scope, id.
  std::vector<RecordPlace> places;
  for (int row = 0; row < rows->rows(); ++row) {
    places.push_back({rows->Text(row, 0), rows->GetUuid(row, 1)});
  }
  return places;
}

absl::StatusOr<std::optional<StoredRecord>> SingleRowAdmin::ReadOne(const RecordId& id) {
  SingleRowRecords::Row row = records_.Read({&id, 1}, {}).front();
  if (absl::IsDataLoss(row.status())) return row.status();
  if (!row.ok()) return ToCallerStatus(row.status());
  if (!*row) return std::optional<StoredRecord>();
  return std::optional<StoredRecord>(std::move((*row)->stored));
}

absl::StatusOr<RecordPage> SingleRowAdmin::List(const ListOp& op) {
  const absl::StatusOr<SingleRowTime> time = records_.ReadTime();
  if (!time.ok()) return ToCallerStatus(time.status());
  const ListWalk walk = WalkOf(op);
  std::optional<RecordPlace> after = FirstPlace(op);
  if (walk == ListWalk::kScope) after->scope = *op.scope;
  const auto places = Walk(walk, walk == ListWalk::kChildren ? op.parent->key : op.name_space,
                           after, VisitLimit(op));
  if (!places.ok()) return places.status();
  const std::vector<RecordId> ids = IdsOf(*places);
  RecordPage page;
  std::size_t at = 0;
  // A page is full long before all that it may visit are read.
  while (at < ids.size()) {
    const std::size_t count = std::min(PostgresConnection::kPipelined, ids.size() - at);
    for (SingleRowRecords::Row& row :
         records_.Read(absl::MakeConstSpan(ids).subspan(at, count), {})) {
      if (page.records.size() == static_cast<std::size_t>(op.limit)) return page;
      page.next = (*places)[at++];
      if (!row.ok() && !absl::IsDataLoss(row.status())) return ToCallerStatus(row.status());
      if (!row.ok() || !*row || !IsListed(op, (*row)->stored.record, time->judged)) continue;
      page.records.push_back(std::move((*row)->stored.record));
      page.records.back().reply.reset();
    }
  }
  if (ids.size() < static_cast<std::size_t>(VisitLimit(op))) page.next.reset();
  return page;
}

absl::StatusOr<bool> SingleRowAdmin::InTransaction(
    absl::FunctionRef<absl::StatusOr<bool>()> write) {
  PostgresConnection& connection = records_.connection();
  if (absl::Status begun = connection.Begin(); !begun.ok()) return begun;
  absl::StatusOr<bool> written = write();
  if (!written.ok() || !*written) {
    connection.Rollback().IgnoreError();
    return written;
  }
  if (absl::Status committed = connection.Commit(); !committed.ok()) return committed;
  return true;
}

absl::StatusOr<bool> SingleRowAdmin::UnlessLocked(
    absl::FunctionRef<absl::StatusOr<bool>()> change) {
  if (lock_waits_ == kMaxPostgresLockWaits) return false;
  absl::StatusOr<bool> changed = change();
  // A row that the server cannot write is left, as one that is locked.
  if (absl::IsDataLoss(changed.status())) return false;
  if (!IsLeftAlone(changed.status())) return changed;
  ++lock_waits_;
  return false;
}

absl::Status SingleRowAdmin::NoteAudit(const AdminNote& note, AuditAction action, bool forced,
                                       const std::string& audit_key, const Record& record,
                                       std::int64_t records, absl::Time now) {
  PostgresParameters parameters;
  parameters.Add(now);
  parameters.AddBytes(note.actor);
  parameters.AddBytes(note.reason);
  parameters.AddInt2(static_cast<std::int16_t>(action));
  parameters.AddBool(forced);
  parameters.AddBytes(record.key.name_space);
  parameters.Add(record.id);
  parameters.AddBytes(AsBytes(AuditHmac(audit_key, record.key)));
  parameters.AddInt2(ToProto(record.state));
  parameters.Add(static_cast<std::int32_t>(record.attempt));
  parameters.Add(static_cast<std::int32_t>(records));
  return records_.connection().ExecuteOne(records_.statements().note_audit, parameters).status();
}

absl::StatusOr<Resolution> SingleRowAdmin::Resolve(const ResolveOp& op) {
  const absl::StatusOr<std::string> audit_key = ReadAuditKey(records_.connection());
  if (!audit_key.ok()) return audit_key.status();
  for (int round = 0; round < kMaxPostgresRounds; ++round) {
    auto resolution = ResolveOnce(op, *audit_key);
    if (!resolution.ok()) return resolution.status();
    if (*resolution) return **resolution;
  }
  return KeepsChanging();
}

absl::StatusOr<std::optional<Resolution>> SingleRowAdmin::ResolveOnce(
    const ResolveOp& op, const std::string& audit_key) {
  const absl::StatusOr<SingleRowTime> time = records_.ReadTime();
  if (!time.ok()) return ToCallerStatus(time.status());
  const auto stored = ReadOne(op.id);
  if (!stored.ok()) return stored.status();
  ResolveDecision decision = DecideResolve(op, time->judged, *stored);
  if (!decision.answer.ok()) return decision.answer.status();
  Resolution& resolution = *decision.answer;
  resolution.key_hmac = AuditHmac(audit_key, op.key);
  if (!decision.store) return std::optional<Resolution>(resolution);
  const Record& record = (*stored)->record;
  resolution.expires_at = std::max(record.expires_at, time->now + op.retention);
  PostgresParameters parameters = RowVersionParameters(**stored);
  parameters.AddInt2(ToProto(resolution.state));
  parameters.Add(op.token);
  if (op.reply) {
    parameters.Add(time->now);
    parameters.AddBytes(op.reply->bytes);
    parameters.AddBytes(AsBytes(op.reply->digest));
    parameters.AddNull();
    parameters.Add(record.lease_expires_at);
  } else {
    for (int column = 0; column < 3; ++column) parameters.AddNull();
    parameters.AddBytes(op.note.reason);
    parameters.Add(std::min(time->now, resolution.expires_at));
  }
  parameters.Add(resolution.expires_at);
  std::optional<absl::Time> tombstone_until;
  if (record.tombstone_until) {
    tombstone_until = resolution.expires_at + (*record.tombstone_until - record.expires_at);
  }
  AddOptional(tombstone_until, parameters);
  const auto written = InTransaction([&]() -> absl::StatusOr<bool> {
    const auto settled =
        records_.connection().ExecuteOne(records_.statements().resolve, parameters);
    if (!settled.ok()) return settled.status();
    if (settled->rows() == 0) return false;
    const absl::Status noted = NoteAudit(
        op.note, op.reply ? AuditAction::kResolvedCompleted : AuditAction::kResolvedReleased,
        op.force, audit_key, record, /*records=*/1, time->now);
    if (!noted.ok()) return noted;
    return true;
  });
  if (!written.ok()) return ToCallerStatus(written.status());
  return *written ? std::optional<Resolution>(resolution) : std::nullopt;
}

absl::StatusOr<PurgeStep> SingleRowAdmin::Purge(const PurgeOp& op) {
  return op.key ? PurgeOne(op) : PurgeWalk(op);
}

PostgresParameters SingleRowAdmin::EntombParameters(const StoredRecord& stored,
                                                    absl::Duration refused, absl::Time now) const {
  const TombstoneTimes times = TombstoneOf(stored.record, refused, now);
  PostgresParameters parameters = RowVersionParameters(stored);
  parameters.Add(std::min(stored.record.created_at, times.expires_at));
  parameters.Add(std::min(stored.record.lease_expires_at, times.expires_at));
  parameters.Add(times.expires_at);
  parameters.Add(times.tombstone_until);
  internal::AddOptional(stored.record.tombstone_until, parameters);
  return parameters;
}

absl::StatusOr<bool> SingleRowAdmin::Forget(const PurgeOp& op, const std::string& audit_key,
                                            const StoredRecord& stored, absl::Time now) {
  PostgresConnection& connection = records_.connection();
  const bool entomb = op.tombstone > absl::ZeroDuration();
  return InTransaction([&]() -> absl::StatusOr<bool> {
    const auto forgotten =
        entomb ? connection.ExecuteOne(records_.statements().entomb,
                                       EntombParameters(stored, op.tombstone, now))
               : connection.ExecuteOne(records_.statements().remove, RemoveParameters(stored));
    if (!forgotten.ok()) return forgotten.status();
    if (forgotten->rows() == 0) return false;
    PostgresParameters checkpoint;
    checkpoint.Add(stored.record.id);
    checkpoint.Add(stored.record.created_at);
    const auto removed = connection.ExecuteOne(records_.statements().remove_checkpoint, checkpoint);
    if (!removed.ok()) return removed.status();
    const absl::Status noted =
        NoteAudit(op.note, entomb ? AuditAction::kPurgedToTombstone : AuditAction::kPurged,
                  op.force, audit_key, stored.record, /*records=*/1, now);
    if (!noted.ok()) return noted;
    return true;
  });
}

absl::StatusOr<PurgeStep> SingleRowAdmin::PurgeOne(const PurgeOp& op) {
  const absl::StatusOr<std::string> audit_key = ReadAuditKey(records_.connection());
  if (!audit_key.ok()) return audit_key.status();
  const RecordId id = RecordIdFor(*op.key);
  for (int round = 0; round < kMaxPostgresRounds; ++round) {
    const absl::StatusOr<SingleRowTime> time = records_.ReadTime();
    if (!time.ok()) return ToCallerStatus(time.status());
    const auto stored = ReadOne(id);
    if (!stored.ok()) return stored.status();
    if (absl::Status may = CheckPurge(op, time->judged, *stored); !may.ok()) return may;
    PurgeStep step;
    step.key_hmac = AuditHmac(*audit_key, *op.key);
    step.before = (*stored)->record.state;
    step.attempt = (*stored)->record.attempt;
    if (!op.validate_only) {
      const auto forgotten = Forget(op, *audit_key, **stored, time->now);
      if (!forgotten.ok()) return ToCallerStatus(forgotten.status());
      if (!*forgotten) continue;
    }
    step.purged.push_back(id);
    return step;
  }
  return KeepsChanging();
}

absl::StatusOr<PurgeStep> SingleRowAdmin::PurgeWalk(const PurgeOp& op) {
  const absl::StatusOr<std::string> audit_key = ReadAuditKey(records_.connection());
  if (!audit_key.ok()) return audit_key.status();
  const absl::StatusOr<SingleRowTime> time = records_.ReadTime();
  if (!time.ok()) return ToCallerStatus(time.status());
  std::optional<RecordPlace> after = op.after;
  if (op.scope) after = RecordPlace{*op.scope, op.after.value_or(RecordPlace()).id};
  const auto places =
      Walk(op.scope ? ListWalk::kScope : ListWalk::kNamespace, op.name_space, after, op.limit);
  if (!places.ok()) return places.status();
  PurgeStep step;
  for (const SingleRowRecords::Row& row : records_.Read(IdsOf(*places), {})) {
    if (!row.ok() && !absl::IsDataLoss(row.status())) return ToCallerStatus(row.status());
    if (!row.ok()) {
      step.busy += 1;
    } else if (*row) {
      const absl::Status purged = PurgeFound(op, *audit_key, *time, (*row)->stored, step);
      if (!purged.ok()) return ToCallerStatus(purged);
    }
  }
  if (places->size() == static_cast<std::size_t>(op.limit)) step.next = places->back();
  return step;
}

absl::Status SingleRowAdmin::PurgeFound(const PurgeOp& op, const std::string& audit_key,
                                        const SingleRowTime& time, const StoredRecord& stored,
                                        PurgeStep& step) {
  if (!IsTarget(op, stored.record)) return absl::OkStatus();
  if (!op.force && NeedsForce(stored.record, time.judged)) {
    step.refused += 1;
    return absl::OkStatus();
  }
  if (!op.validate_only) {
    const auto forgotten = UnlessLocked([&] { return Forget(op, audit_key, stored, time.now); });
    if (!forgotten.ok()) return forgotten.status();
    if (!*forgotten) {
      step.busy += 1;
      return absl::OkStatus();
    }
  }
  step.purged.push_back(stored.record.id);
  return absl::OkStatus();
}

absl::StatusOr<EndUnknownStep> SingleRowAdmin::EndUnknown(const EndUnknownOp& op) {
  const absl::StatusOr<SingleRowTime> time = records_.ReadTime();
  if (!time.ok()) return ToCallerStatus(time.status());
  std::optional<RecordPlace> after;
  if (op.after) after = RecordPlace{"", *op.after};
  const auto places = Walk(ListWalk::kUnknown, op.name_space, after, op.limit);
  if (!places.ok()) return places.status();
  EndUnknownStep step;
  step.visited = static_cast<std::int64_t>(places->size());
  if (step.visited == op.limit) step.next = places->back().id;
  std::vector<PostgresParameters> executions;
  std::vector<PostgresParameters> checkpoints;
  for (const SingleRowRecords::Row& row : records_.Read(IdsOf(*places), {})) {
    if (!row.ok() && !absl::IsDataLoss(row.status())) return ToCallerStatus(row.status());
    // A damaged one stays; a read of that record reports it.
    if (!row.ok() || !*row) continue;
    const Record& record = (*row)->stored.record;
    if (record.state != RecordState::kUnknown || time->judged < record.lease_expires_at + op.life) {
      continue;
    }
    executions.push_back(
        EntombParameters((*row)->stored, RefusedAfterUnknown(record, time->now), time->now));
    PostgresParameters& checkpoint = checkpoints.emplace_back();
    checkpoint.Add(record.id);
    checkpoint.Add(record.created_at);
  }
  const auto ended = records_.connection().ExecuteEach(records_.statements().entomb, executions,
                                                       PostgresConnection::LockWait::kBrief);
  std::vector<PostgresParameters> left;
  for (std::size_t i = 0; i < ended.size(); ++i) {
    const absl::Status& failed = ended[i].status();
    if (!failed.ok() && !IsLeftAlone(failed) && !absl::IsDataLoss(failed)) {
      return ToCallerStatus(failed);
    }
    if (!ended[i].ok() || ended[i]->rows() == 0) continue;
    step.ended += 1;
    left.push_back(checkpoints[i]);
  }
  // What this leaves costs its space until the key is used again, and is read by nobody.
  records_.connection().ExecuteEach(records_.statements().remove_checkpoint, left,
                                    PostgresConnection::LockWait::kBrief);
  return step;
}

absl::StatusOr<std::vector<StoredRecord>> SingleRowAdmin::ReadContents(const ResealOp& op,
                                                                       ResealStep& step) {
  const auto places = Walk(ListWalk::kNamespace, op.name_space, op.after, op.limit);
  if (!places.ok()) return places.status();
  std::vector<StoredRecord> contents;
  std::vector<SingleRowRecords::Row> rows =
      records_.Read(IdsOf(*places), {limits::kMaxResealStepBytes, /*confirmed=*/false});
  bool whole = true;
  for (std::size_t i = 0; i < rows.size() && whole; ++i) {
    SingleRowRecords::Row& row = rows[i];
    if (!row.ok() && !absl::IsDataLoss(row.status())) return ToCallerStatus(row.status());
    // Its reply was left out: the next step begins here.
    whole = !row.ok() || !*row || !(*row)->reply_left_out;
    if (!whole) break;
    step.next = (*places)[i];
    if (row.ok() && !*row) continue;  // removed meanwhile
    step.examined += 1;
    if (row.ok()) {
      contents.push_back(std::move((*row)->stored));
    } else {
      step.damaged.push_back((*places)[i].id);
    }
  }
  if (whole && rows.size() < static_cast<std::size_t>(op.limit)) step.next.reset();
  std::vector<StoredRecord*> all;
  for (StoredRecord& stored : contents) all.push_back(&stored);
  const std::vector<absl::Status> reads = records_.AddCheckpoints(all);
  std::vector<StoredRecord> whole_ones;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    if (reads[i].ok()) {
      whole_ones.push_back(std::move(contents[i]));
    } else if (absl::IsDataLoss(reads[i])) {
      step.damaged.push_back(contents[i].record.id);
    } else {
      return ToCallerStatus(reads[i]);
    }
  }
  return whole_ones;
}

absl::StatusOr<bool> SingleRowAdmin::Replace(const ContentReplacement& replacement) {
  const auto& [before, after] = replacement;
  bool whole = true;
  if (after.reply) {
    PostgresParameters parameters;
    parameters.Add(before.id);
    parameters.Add(before.token);
    AddDigests(ReplyDigestsOf(before.completed_digest, *before.reply), parameters);
    parameters.AddBytes(after.reply->bytes);
    AddDigests(ReplyDigestsOf(before.completed_digest, *after.reply), parameters);
    const auto replaced =
        records_.connection().ExecuteOne(records_.statements().replace_reply, parameters);
    if (!replaced.ok()) return replaced.status();
    whole = replaced->rows() > 0;
  }
  if (after.checkpoint) {
    PostgresParameters parameters;
    parameters.Add(before.id);
    parameters.AddBytes(before.checkpoint);
    parameters.AddBytes(*after.checkpoint);
    const auto replaced =
        records_.connection().ExecuteOne(records_.statements().replace_checkpoint, parameters);
    if (!replaced.ok()) return replaced.status();
    whole = whole && replaced->rows() > 0;
  }
  return whole;
}

absl::StatusOr<ResealStep> SingleRowAdmin::Reseal(const ResealOp& op) {
  ResealStep step;
  absl::StatusOr<std::vector<StoredRecord>> read = ReadContents(op, step);
  if (!read.ok()) return read.status();
  std::map<RecordId, Record> records;
  std::vector<StoredContent> contents;
  for (StoredRecord& stored : *read) {
    Record& record = stored.record;
    contents.push_back({record.id, record.key, record.token, record.fingerprints,
                        std::move(record.reply), stored.completed_digest,
                        std::move(stored.checkpoint)});
    records.emplace(record.id, std::move(record));
  }
  const std::vector<ContentReplacement> replacements = ResealAll(*op.sealer, std::move(contents));
  std::optional<RecordId> last;
  for (const ContentReplacement& replacement : replacements) {
    if (!op.validate_only) {
      const absl::StatusOr<bool> replaced = UnlessLocked([&] { return Replace(replacement); });
      if (!replaced.ok()) return ToCallerStatus(replaced.status());
      if (!*replaced) {
        step.busy += 1;
        continue;
      }
    }
    step.resealed.push_back(replacement.before.id);
    last = last ? std::max(*last, replacement.before.id) : replacement.before.id;
  }
  if (op.validate_only || !last) return step;
  const absl::StatusOr<std::string> audit_key = ReadAuditKey(records_.connection());
  if (!audit_key.ok()) return audit_key.status();
  const absl::StatusOr<SingleRowTime> time = records_.ReadTime();
  if (!time.ok()) return ToCallerStatus(time.status());
  const absl::Status noted =
      NoteAudit(op.note, AuditAction::kResealed, /*forced=*/false, *audit_key, records.at(*last),
                static_cast<std::int64_t>(step.resealed.size()), time->now);
  if (!noted.ok()) return ToCallerStatus(noted);
  return step;
}

absl::StatusOr<UsageStep> SingleRowAdmin::MeasureUsage(const UsageOp& op) {
  const absl::StatusOr<SingleRowTime> time = records_.ReadTime();
  if (!time.ok()) return ToCallerStatus(time.status());
  const RecordPlace after = op.after.value_or(RecordPlace());
  PostgresParameters parameters;
  parameters.AddBytes(op.name_space);
  parameters.AddBytes(after.scope);
  parameters.Add(after.id);
  parameters.Add(op.limit);
  parameters.Add(time->judged);
  const auto rows =
      records_.connection().ExecuteOne(records_.statements().measure_usage, parameters);
  if (!rows.ok()) return ToCallerStatus(rows.status());
  UsageStep step;
  step.visited = rows->rows();
  // Columns: scope, id, live, bytes.
  for (int row = 0; row < rows->rows(); ++row) {
    if (!rows->Bool(row, 2)) continue;
    step.usage.records += 1;
    step.usage.reply_bytes += rows->Integer(row, 3);
  }
  const int last = rows->rows() - 1;
  if (step.visited == op.limit) {
    step.next = RecordPlace{rows->Text(last, 0), rows->GetUuid(last, 1)};
  }
  return step;
}

// Columns: state, created_at, lease_until.
absl::StatusOr<std::optional<absl::Time>> SingleRowAdmin::OldestOf(
    const PostgresStatement& statement, absl::Time now) {
  const auto rows = records_.connection().ExecuteOne(statement, {});
  if (!rows.ok()) return rows.status();
  std::optional<absl::Time> oldest;
  for (int row = 0; row < rows->rows(); ++row) {
    if (RecordStateFrom(rows->Integer(row, 0)) != RecordState::kReserved) continue;
    if (rows->Time(row, 2) <= now) continue;
    const absl::Time created_at = rows->Time(row, 1);
    oldest = oldest ? std::min(*oldest, created_at) : created_at;
  }
  return oldest;
}

absl::StatusOr<StoreGauges> SingleRowAdmin::Inspect() {
  const SingleRowStatements& statements = records_.statements();
  const absl::StatusOr<SingleRowTime> time = records_.ReadTime();
  if (!time.ok()) return ToCallerStatus(time.status());
  StoreGauges gauges;
  for (const PostgresStatement* const statement :
       {&statements.open_for_long, &statements.newest_ordered, &statements.newest_hashed}) {
    const auto oldest = OldestOf(*statement, time->now);
    if (!oldest.ok()) return ToCallerStatus(oldest.status());
    if (*oldest) {
      gauges.oldest_reserved_age = std::max(gauges.oldest_reserved_age, time->now - **oldest);
    }
  }
  const auto unknown = records_.connection().ExecuteOne(statements.count_unknown, {});
  if (!unknown.ok()) return ToCallerStatus(unknown.status());
  for (int row = 0; row < unknown->rows(); ++row) {
    if (RecordStateFrom(unknown->Integer(row, 0)) == RecordState::kUnknown) {
      gauges.unknown_records += 1;
    }
  }
  return gauges;
}

}  // namespace idempotency::internal
