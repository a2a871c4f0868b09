#include "server/store/postgres/single_row/admin.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "grpc_idempotency/record_key.h"
#include "server/store/audit_hmac.h"
#include "server/store/decision.h"
#include "server/store/postgres/records/audit_key.h"
#include "server/store/postgres/records/batch.h"
#include "server/store/postgres/records/operation_parameters.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {

absl::StatusOr<std::optional<StoredRecord>> SingleRowAdmin::ReadOne(const RecordId& id) {
  SingleRowRecords::Row row = records_.ReadToSettle({&id, 1}).front();
  if (absl::IsDataLoss(row.status())) return row.status();
  if (!row.ok()) return ToCallerStatus(row.status());
  if (!*row) return std::optional<StoredRecord>();
  return std::optional<StoredRecord>(std::move((*row)->stored));
}

absl::StatusOr<RecordPage> SingleRowAdmin::List(const ListOp& op) {
  const absl::StatusOr<SingleRowTime> time = records_.ReadTime();
  if (!time.ok()) return ToCallerStatus(time.status());
  const ListWalk walk = WalkOf(op);
  RecordPlace after = FirstPlace(op).value_or(RecordPlace());
  if (walk == ListWalk::kScope) after.scope = *op.scope;
  const auto visit =
      walk_.Places(walk, walk == ListWalk::kChildren ? op.parent->key : op.name_space, after,
                   VisitLimit(op), Look::kAlways);
  if (!visit.ok()) return visit.status();
  const std::vector<RecordId> ids = RecordIdsOf(visit->places);
  RecordPage page;
  std::size_t at = 0;
  // A page is full long before all that it may visit are read.
  while (at < ids.size()) {
    const std::size_t count = std::min(PostgresConnection::kPipelined, ids.size() - at);
    for (SingleRowRecords::Row& row :
         records_.Read(absl::MakeConstSpan(ids).subspan(at, count), {})) {
      if (page.records.size() == static_cast<std::size_t>(op.limit)) return page;
      page.next = visit->places[at++];
      if (!row.ok() && !IsUnreadable(row.status())) return ToCallerStatus(row.status());
      if (!row.ok()) ++page.damaged;
      if (!row.ok() || !*row || !IsListed(op, (*row)->stored.record, time->judged)) continue;
      page.records.push_back(std::move((*row)->stored.record));
      page.records.back().reply.reset();
    }
  }
  page.next = visit->next;
  return page;
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
  if (!decision.writes) return std::optional<Resolution>(resolution);
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
  AddOptional(TombstoneAfter(record, resolution.expires_at), parameters);
  const auto written = walk_.InTransaction([&]() -> absl::StatusOr<bool> {
    const auto settled =
        records_.connection().ExecuteOne(records_.statements().resolve, parameters);
    if (!settled.ok()) return settled.status();
    if (settled->rows() == 0) return false;
    const absl::Status noted = walk_.NoteAudit(op.note, ActionOf(op), op.force, audit_key, record,
                                               /*records=*/1, time->now);
    if (!noted.ok()) return noted;
    return true;
  });
  if (!written.ok()) return ToCallerStatus(written.status());
  return *written ? std::optional<Resolution>(resolution) : std::nullopt;
}

absl::StatusOr<PurgeStep> SingleRowAdmin::Purge(const PurgeOp& op) {
  return op.key ? PurgeOne(op) : PurgeWalk(op);
}

absl::StatusOr<bool> SingleRowAdmin::Forget(const PurgeOp& op, const std::string& audit_key,
                                            const StoredRecord& stored, absl::Time now) {
  PostgresConnection& connection = records_.connection();
  const bool entomb = op.tombstone > absl::ZeroDuration();
  return walk_.InTransaction([&]() -> absl::StatusOr<bool> {
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
    const absl::Status noted = walk_.NoteAudit(op.note, ActionOf(op), op.force, audit_key,
                                               stored.record, /*records=*/1, now);
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
  RecordPlace after = op.after.value_or(RecordPlace());
  if (op.scope) after.scope = *op.scope;
  const auto visit = walk_.Places(op.scope ? ListWalk::kScope : ListWalk::kNamespace, op.name_space,
                                  after, op.limit, Look::kAlways);
  if (!visit.ok()) return visit.status();
  PurgeStep step;
  for (const SingleRowRecords::Row& row : records_.Read(RecordIdsOf(visit->places), {})) {
    if (!row.ok() && !IsUnreadable(row.status())) return ToCallerStatus(row.status());
    if (!row.ok()) {
      step.busy += 1;
    } else if (*row) {
      const absl::Status purged = PurgeFound(op, *audit_key, *time, (*row)->stored, step);
      if (!purged.ok()) return ToCallerStatus(purged);
    }
  }
  step.next = visit->next;
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
    const auto forgotten =
        walk_.UnlessLocked([&] { return Forget(op, audit_key, stored, time.now); });
    if (!forgotten.ok()) return forgotten.status();
    if (!*forgotten) {
      step.busy += 1;
      return absl::OkStatus();
    }
  }
  step.purged.push_back(stored.record.id);
  return absl::OkStatus();
}

}  // namespace idempotency::internal
