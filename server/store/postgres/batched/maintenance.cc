#include "server/store/postgres/batched/maintenance.h"

#include <algorithm>

#include "server/store/postgres/connection/parameters.h"
#include "server/store/postgres/records/batch.h"
#include "server/store/postgres/records/unreadable_rows.h"

namespace idempotency::internal {

absl::StatusOr<UsageStep> BatchedMaintenance::MeasureUsage(const UsageOp& op) {
  return ReadOrStepOver(
      RecordPlaces(connection_, statements_.places, unreadable_, ListWalk::kNamespace,
                   op.name_space, Look::kSeldom),
      op.after.value_or(RecordPlace()), op.limit,
      [&](int limit, const std::optional<RecordPlace>&) { return Measure(op, limit); },
      CountUnreadable);
}

// Columns: how many were read, the last one's scope and id, live ones, bytes.
absl::StatusOr<UsageStep> BatchedMaintenance::Measure(const UsageOp& op, int limit) {
  const RecordPlace after = op.after.value_or(RecordPlace());
  PostgresParameters parameters;
  parameters.AddBytes(op.name_space);
  parameters.AddBytes(after.scope);
  parameters.Add(after.id);
  parameters.Add(limit);
  const auto result = connection_.Execute(statements_.measure_usage, parameters);
  if (!result.ok()) return result.status();
  UsageStep step;
  step.visited = result->Integer(0, 0);
  step.usage = {result->Integer(0, 3), result->Integer(0, 4)};
  if (step.visited == limit) step.next = RecordPlace{result->Text(0, 1), result->GetUuid(0, 2)};
  return step;
}

absl::StatusOr<EndUnknownStep> BatchedMaintenance::EndUnknown(const EndUnknownOp& op) {
  return ReadOrStepOver(
      RecordPlaces(connection_, statements_.places, unreadable_, ListWalk::kUnknown, op.name_space,
                   Look::kSeldom),
      {"", op.after.value_or(RecordId())}, op.limit,
      [&](int limit, const std::optional<RecordPlace>&) { return End(op, limit); },
      [](const RecordPlace& unreadable) -> absl::StatusOr<EndUnknownStep> {
        return EndUnknownStep{/*ended=*/0, /*visited=*/1, unreadable.id};
      });
}

// Columns: how many were read, the last one's id, how many were ended.
absl::StatusOr<EndUnknownStep> BatchedMaintenance::End(const EndUnknownOp& op, int limit) {
  PostgresParameters parameters;
  parameters.AddBytes(op.name_space);
  parameters.Add(op.after.value_or(RecordId()));
  parameters.Add(limit);
  parameters.AddInterval(op.life);
  const auto result = connection_.Execute(statements_.end_unknown, parameters);
  if (!result.ok()) return result.status();
  EndUnknownStep step;
  step.visited = result->Integer(0, 0);
  step.ended = result->Integer(0, 2);
  if (step.visited == limit) step.next = result->GetUuid(0, 1);
  return step;
}

// Columns: now, created_at of the oldest RESERVED or NULL, UNKNOWN ones.
absl::StatusOr<StoreGauges> BatchedMaintenance::Inspect() {
  const auto result = connection_.ExecuteOne(statements_.inspect, {});
  if (!result.ok()) return result.status();
  StoreGauges gauges;
  gauges.oldest_reserved_age = absl::ZeroDuration();
  if (!result->IsNull(0, 1)) {
    gauges.oldest_reserved_age =
        std::max(result->Time(0, 0) - result->Time(0, 1), absl::ZeroDuration());
  }
  gauges.unknown_records = result->Integer(0, 2);
  return gauges;
}

}  // namespace idempotency::internal
