#include "server/store/postgres/batched/admin.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "core/sha256.h"
#include "server/store/admin_decision.h"
#include "server/store/audit_hmac.h"
#include "server/store/decision.h"
#include "server/store/postgres/batched/rows.h"
#include "server/store/postgres/records/audit_key.h"
#include "server/store/postgres/records/batch.h"
#include "server/store/postgres/records/unreadable_rows.h"
#include "server/store/postgres/statements/record_columns.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

// Of the walk of a listing.
const std::string& FirstPart(const ListOp& op) {
  return op.parent ? op.parent->key : op.name_space;
}

// $1 to $5 of the statements that change records.
PostgresParameters NoteParameters(const AdminNote& note, std::string_view audit_key, bool forced) {
  const HmacPads pads = HmacPadsOf(audit_key);
  PostgresParameters parameters;
  parameters.AddBytes(note.actor);
  parameters.AddBytes(note.reason);
  parameters.AddBytes(pads.inner);
  parameters.AddBytes(pads.outer);
  parameters.AddBool(forced);
  return parameters;
}

AuditEntry EntryFrom(const PostgresResult& result, int row) {
  AuditEntry entry;
  entry.sequence = result.Integer(row, 0);
  entry.at = result.Time(row, 1);
  entry.note = {result.Text(row, 2), result.Text(row, 3)};
  entry.action = static_cast<AuditAction>(result.Integer(row, 4));
  entry.forced = result.Bool(row, 5);
  entry.name_space = result.Text(row, 6);
  entry.record_id = result.GetUuid(row, 7);
  entry.key_hmac = AuditHmacFrom(result.Bytea(row, 8));
  entry.state = RecordStateFrom(result.Integer(row, 9)).value_or(RecordState::kUnknown);
  entry.attempt = static_cast<std::uint32_t>(result.Integer(row, 10));
  entry.records = result.Integer(row, 11);
  return entry;
}

// A row of a purge, in the columns that all of its statements have.
PurgeStep StepFrom(const PostgresResult& result, int limit) {
  PurgeStep step;
  const std::int64_t visited = result.Integer(0, 0);
  for (const std::string& id : result.TextArray(0, 5)) {
    step.purged.push_back(Uuid::Parse(id).value_or(Uuid()));
  }
  const std::int64_t locked = result.Integer(0, 4);
  step.busy = result.Integer(0, 3) - locked;
  step.refused = locked - static_cast<std::int64_t>(step.purged.size());
  if (visited >= limit || result.Bool(0, 6)) {
    step.next = RecordPlace{result.Text(0, 1), result.GetUuid(0, 2)};
  }
  return step;
}

}  // namespace

absl::StatusOr<PostgresResult> BatchedAdmin::Walk(const ListOp& op, const RecordPlace& after,
                                                  int limit) {
  PostgresParameters parameters;
  const ListWalk walk = WalkOf(op);
  parameters.AddBytes(FirstPart(op));
  if (walk == ListWalk::kNamespace || walk == ListWalk::kScope) parameters.AddBytes(after.scope);
  parameters.Add(after.id);
  parameters.Add(limit);
  switch (walk) {
    case ListWalk::kNamespace:
      return connection_.Execute(statements_.list_namespace, parameters);
    case ListWalk::kScope:
      return connection_.Execute(statements_.list_scope, parameters);
    case ListWalk::kUnknown:
      return connection_.Execute(statements_.list_unknown, parameters);
    case ListWalk::kChildren:
      break;
  }
  return connection_.Execute(statements_.list_children, parameters);
}

absl::StatusOr<RecordPage> BatchedAdmin::List(const ListOp& op) {
  RecordPlace after = FirstPlace(op).value_or(RecordPlace());
  if (WalkOf(op) == ListWalk::kScope) after.scope = *op.scope;
  return ReadOrStepOver(
      RecordPlaces(connection_, statements_.places, unreadable_, WalkOf(op), FirstPart(op),
                   Look::kAlways),
      after, VisitLimit(op),
      [&](int limit, const std::optional<RecordPlace>&) { return Page(op, after, limit); },
      [](const RecordPlace& unreadable) -> absl::StatusOr<RecordPage> {
        return RecordPage{/*records=*/{}, /*damaged=*/1, unreadable};
      });
}

absl::StatusOr<RecordPage> BatchedAdmin::Page(const ListOp& op, const RecordPlace& after,
                                              int limit) {
  const auto rows = Walk(op, after, limit);
  if (!rows.ok()) return rows.status();
  RecordPage page;
  for (int row = 0; row < rows->rows(); ++row) {
    if (page.records.size() == static_cast<std::size_t>(op.limit)) return page;
    page.next =
        RecordPlace{rows->Text(row, record_column::kScope), rows->GetUuid(row, record_column::kId)};
    absl::StatusOr<PostgresRecord> read = ReadRecord(*rows, row);
    if (!read.ok()) ++page.damaged;
    if (!read.ok() || !IsListed(op, read->stored.record, read->read_at)) continue;
    page.records.push_back(std::move(read->stored.record));
    page.records.back().reply.reset();
  }
  if (rows->rows() < limit) page.next.reset();
  return page;
}

absl::StatusOr<std::optional<PostgresRecord>> BatchedAdmin::Read(const RecordId& id) {
  PostgresArray ids(PostgresType::kUuid);
  ids.AppendUuid(id);
  auto rows = ReadRows(connection_, statements_.read_to_settle, ids);
  if (!rows.ok()) return ToCallerStatus(rows.status());
  const auto row = rows->find(id);
  if (row == rows->end()) return std::optional<PostgresRecord>();
  if (!row->second.ok()) return row->second.status();
  return std::optional<PostgresRecord>(*std::move(row->second));
}

absl::StatusOr<Resolution> BatchedAdmin::Resolve(const ResolveOp& op) {
  const absl::StatusOr<std::string> audit_key = ReadAuditKey(connection_);
  if (!audit_key.ok()) return audit_key.status();
  for (int round = 0; round < kMaxPostgresRounds; ++round) {
    const auto read = Read(op.id);
    if (!read.ok()) return read.status();
    ResolveDecision decision = *read ? DecideResolve(op, (*read)->read_at, (*read)->stored)
                                     : DecideResolve(op, absl::Time(), std::nullopt);
    if (decision.answer.ok()) decision.answer->key_hmac = AuditHmac(*audit_key, op.key);
    if (!decision.writes) return decision.answer;
    PostgresParameters parameters = NoteParameters(op.note, *audit_key, op.force);
    parameters.Add(op.id);
    parameters.Add(decision.expected.token);
    parameters.Add(static_cast<std::int32_t>(decision.expected.attempt));
    parameters.Add(static_cast<std::int32_t>(ToProto(decision.answer->before)));
    parameters.Add(static_cast<std::int32_t>(ToProto(decision.answer->state)));
    parameters.Add(op.token);
    parameters.AddInterval(op.retention);
    const EncodedReply reply = op.reply.value_or(EncodedReply());
    parameters.AddBytes(reply.bytes);
    parameters.AddBytes(AsBytes(reply.digest));
    const auto settled = connection_.Execute(statements_.resolve, parameters);
    if (!settled.ok()) return ToCallerStatus(settled.status());
    if (settled->rows() == 0) continue;
    decision.answer->expires_at = settled->Time(0, 0);
    return decision.answer;
  }
  return KeepsChanging();
}

absl::StatusOr<PurgeStep> BatchedAdmin::Purge(const PurgeOp& op) {
  return op.key ? PurgeOne(op) : PurgeWalk(op);
}

absl::StatusOr<PurgeStep> BatchedAdmin::PurgeOne(const PurgeOp& op) {
  const absl::StatusOr<std::string> audit_key = ReadAuditKey(connection_);
  if (!audit_key.ok()) return audit_key.status();
  const RecordId id = RecordIdFor(*op.key);
  for (int round = 0; round < kMaxPostgresRounds; ++round) {
    const auto read = Read(id);
    if (!read.ok()) return read.status();
    const absl::Status may = *read ? CheckPurge(op, (*read)->read_at, (*read)->stored)
                                   : CheckPurge(op, absl::Time(), std::nullopt);
    if (!may.ok()) return may;
    const Record& record = (*read)->stored.record;
    PurgeStep step;
    if (op.validate_only) {
      step.purged.push_back(id);
    } else {
      PostgresParameters parameters = NoteParameters(op.note, *audit_key, op.force);
      parameters.AddInterval(op.tombstone);
      parameters.Add(id);
      parameters.Add((*read)->stored.record.token);
      parameters.Add(static_cast<std::int32_t>(record.attempt));
      parameters.Add(static_cast<std::int32_t>(ToProto(record.state)));
      const auto done = connection_.Execute(statements_.purge_one, parameters);
      if (!done.ok()) return ToCallerStatus(done.status());
      step = StepFrom(*done, /*limit=*/2);
      if (step.busy > 0) return ToCallerStatus(absl::DeadlineExceededError("locked"));
    }
    step.key_hmac = AuditHmac(*audit_key, *op.key);
    step.before = record.state;
    step.attempt = record.attempt;
    if (!step.purged.empty()) return step;
  }
  return KeepsChanging();
}

absl::StatusOr<PurgeStep> BatchedAdmin::PurgeWalk(const PurgeOp& op) {
  PostgresParameters parameters;
  if (op.validate_only) {
    parameters.AddBool(op.force);
  } else {
    const absl::StatusOr<std::string> audit_key = ReadAuditKey(connection_);
    if (!audit_key.ok()) return audit_key.status();
    parameters = NoteParameters(op.note, *audit_key, op.force);
    parameters.AddInterval(op.tombstone);
  }
  RecordPlace after = op.after.value_or(RecordPlace());
  if (op.scope) after.scope = *op.scope;
  const ListWalk walk = op.scope ? ListWalk::kScope : ListWalk::kNamespace;
  return ReadOrStepOver(
      RecordPlaces(connection_, statements_.places, unreadable_, walk, op.name_space,
                   Look::kAlways),
      after, op.limit,
      [&](int limit, const std::optional<RecordPlace>&) {
        return PurgeNext(op, parameters, after, limit);
      },
      [](const RecordPlace& unreadable) -> absl::StatusOr<PurgeStep> {
        PurgeStep step;
        step.busy = 1;
        step.next = unreadable;
        return step;
      });
}

absl::StatusOr<PurgeStep> BatchedAdmin::PurgeNext(const PurgeOp& op, PostgresParameters parameters,
                                                  const RecordPlace& after, int limit) {
  parameters.AddBytes(op.name_space);
  parameters.AddBytes(after.scope);
  parameters.Add(after.id);
  parameters.Add(limit);
  if (!op.scope) parameters.Add(op.created_before.value_or(absl::InfiniteFuture()));
  const PostgresStatement& statement =
      op.scope ? (op.validate_only ? statements_.count_scope : statements_.purge_scope)
               : (op.validate_only ? statements_.count_namespace : statements_.purge_namespace);
  const auto done = connection_.Execute(statement, parameters);
  if (!done.ok()) return done.status();
  return StepFrom(*done, limit);
}

absl::StatusOr<AuditPage> BatchedAdmin::ReadAudit(const AuditOp& op) {
  PostgresParameters parameters;
  parameters.AddBytes(op.name_space);
  parameters.AddInt8(AuditPageMaker::Place(op));
  parameters.Add(op.limit + 1);
  if (op.record_id) {
    parameters.Add(*op.record_id);
    parameters.AddBool(op.newest_first);
  }
  const PostgresStatement& statement = op.record_id      ? statements_.read_audit_of_record
                                       : op.newest_first ? statements_.read_newest_audit
                                                         : statements_.read_audit;
  const auto rows = connection_.Execute(statement, parameters);
  if (!rows.ok()) return ToCallerStatus(rows.status());
  AuditPage page;
  for (int row = 0; row < rows->rows() && row < op.limit; ++row) {
    page.entries.push_back(EntryFrom(*rows, row));
  }
  if (rows->rows() > op.limit) page.next = page.entries.back().sequence;
  return page;
}

}  // namespace idempotency::internal
