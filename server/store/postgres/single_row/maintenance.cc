#include "server/store/postgres/single_row/maintenance.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/store/decision.h"
#include "server/store/postgres/records/batch.h"
#include "server/store/postgres/records/unreadable_rows.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {

absl::StatusOr<EndUnknownStep> SingleRowMaintenance::EndUnknown(const EndUnknownOp& op) {
  const absl::StatusOr<SingleRowTime> time = records_.ReadTime();
  if (!time.ok()) return ToCallerStatus(time.status());
  const auto visit = walk_.Places(ListWalk::kUnknown, op.name_space,
                                  {"", op.after.value_or(RecordId())}, op.limit, Look::kSeldom);
  if (!visit.ok()) return visit.status();
  EndUnknownStep step;
  step.visited = static_cast<std::int64_t>(visit->places.size());
  if (visit->next) step.next = visit->next->id;
  std::vector<PostgresParameters> executions;
  std::vector<PostgresParameters> checkpoints;
  for (const SingleRowRecords::Row& row : records_.Read(RecordIdsOf(visit->places), {})) {
    if (!row.ok() && !IsUnreadable(row.status())) return ToCallerStatus(row.status());
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
    if (!failed.ok() && !IsLeftAlone(failed) && !IsUnreadable(failed)) {
      return ToCallerStatus(failed);
    }
    if (!ended[i].ok() || ended[i]->rows() == 0) continue;
    step.ended += 1;
    left.push_back(checkpoints[i]);
  }
  // What this leaves is read by nobody, and removed by SingleRowOrphans.
  records_.connection().ExecuteEach(records_.statements().remove_checkpoint, left,
                                    PostgresConnection::LockWait::kBrief);
  return step;
}

absl::StatusOr<UsageStep> SingleRowMaintenance::MeasureUsage(const UsageOp& op) {
  const absl::StatusOr<SingleRowTime> time = records_.ReadTime();
  if (!time.ok()) return ToCallerStatus(time.status());
  return ReadOrStepOver(
      RecordPlaces(records_.connection(), records_.statements().places, records_.unreadable(),
                   ListWalk::kNamespace, op.name_space, Look::kSeldom),
      op.after.value_or(RecordPlace()), op.limit,
      [&](int limit, const std::optional<RecordPlace>& until) {
        return Measure(op, until, *time, limit);
      },
      CountUnreadable);
}

absl::StatusOr<UsageStep> SingleRowMaintenance::Measure(const UsageOp& op,
                                                        const std::optional<RecordPlace>& until,
                                                        const SingleRowTime& time, int limit) {
  const RecordPlace after = op.after.value_or(RecordPlace());
  const bool in_one_scope = until && until->scope == after.scope;
  PostgresParameters parameters;
  parameters.AddBytes(op.name_space);
  parameters.AddBytes(after.scope);
  parameters.Add(after.id);
  if (in_one_scope) {
    parameters.Add(until->id);
  } else {
    parameters.AddBytes(until ? until->scope : ScopeBehind(LastScope()));
  }
  parameters.Add(limit);
  parameters.Add(time.judged);
  const SingleRowStatements& statements = records_.statements();
  const auto rows = records_.connection().ExecuteOne(
      in_one_scope ? statements.measure_usage_in_scope : statements.measure_usage_in_scopes,
      parameters);
  if (!rows.ok()) return rows.status();
  UsageStep step;
  step.visited = rows->rows();
  // Columns: scope, id, live, bytes.
  for (int row = 0; row < rows->rows(); ++row) {
    if (!rows->Bool(row, 2)) continue;
    step.usage.records += 1;
    step.usage.reply_bytes += rows->Integer(row, 3);
  }
  const int last = rows->rows() - 1;
  if (step.visited == limit) {
    step.next = RecordPlace{rows->Text(last, 0), rows->GetUuid(last, 1)};
  } else if (until && !in_one_scope) {
    step.next = RecordPlace{until->scope, RecordId()};
  } else {
    step.next = until;
  }
  return step;
}

// Columns: state, created_at, lease_until.
absl::StatusOr<std::optional<absl::Time>> SingleRowMaintenance::OldestOf(
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

absl::Status SingleRowMaintenance::ReadOldest(StoreGauges& gauges) {
  const SingleRowStatements& statements = records_.statements();
  const absl::StatusOr<SingleRowTime> time = records_.ReadTime();
  if (!time.ok()) return time.status();
  absl::Duration age = absl::ZeroDuration();
  for (const PostgresStatement* const statement :
       {&statements.open_for_long, &statements.newest_ordered, &statements.newest_hashed}) {
    const auto oldest = OldestOf(*statement, time->now);
    if (!oldest.ok()) return oldest.status();
    if (*oldest) age = std::max(age, time->now - **oldest);
  }
  gauges.oldest_reserved_age = age;
  return absl::OkStatus();
}

absl::Status SingleRowMaintenance::Inspect(StoreGauges& gauges) {
  const absl::Status oldest = ReadOldest(gauges);
  // After another failure the next statement may take its whole time too.
  if (!oldest.ok() && !IsUnreadable(oldest)) return ToCallerStatus(oldest);
  const auto unknown = records_.connection().ExecuteOne(records_.statements().count_unknown, {});
  if (!unknown.ok()) return ToCallerStatus(unknown.status());
  gauges.unknown_records = 0;
  for (int row = 0; row < unknown->rows(); ++row) {
    if (RecordStateFrom(unknown->Integer(row, 0)) == RecordState::kUnknown) {
      *gauges.unknown_records += 1;
    }
  }
  return oldest.ok() ? oldest : ToCallerStatus(oldest);
}

}  // namespace idempotency::internal
