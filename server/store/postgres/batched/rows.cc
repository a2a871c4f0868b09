#include "server/store/postgres/batched/rows.h"

#include <utility>

#include "server/store/batch_weight.h"
#include "server/store/postgres/statements/record_columns.h"

namespace idempotency::internal {
namespace {

// The received replies; empty for a statement that does not read them.
BatchWeight WeightOf(const PostgresResult& result) {
  BatchWeight weight;
  for (int row = 0; row < result.rows(); ++row) {
    // Two digits for each byte, after "\x".
    const std::size_t digits = result.View(row, record_column::kReply).size();
    weight.Add(digits > 2 ? (digits - 2) / 2 : 0);
  }
  return weight;
}

PostgresParameters ReadParameters(const PostgresArray& ids) {
  PostgresParameters parameters;
  parameters.Add(ids);
  return parameters;
}

}  // namespace

absl::StatusOr<PostgresRows> ReadRows(PostgresConnection& connection,
                                      const PostgresStatement& statement,
                                      const PostgresArray& ids) {
  const auto result = connection.Execute(statement, ReadParameters(ids));
  if (!result.ok()) return result.status();
  PostgresRows rows;
  rows.reserve(static_cast<std::size_t>(result->rows()));
  const bool is_full = WeightOf(*result).IsFull();
  for (int row = 0; row < result->rows(); ++row) {
    absl::StatusOr<PostgresRecord> record = ReadRecord(*result, row);
    if (is_full && record.ok() && record->stored.record.state == RecordState::kCompleted) {
      record->reply_left_out = result->IsNull(row, record_column::kReply);
    }
    const RecordId id =
        record.ok() ? record->stored.record.id : result->GetUuid(row, record_column::kId);
    rows.emplace(id, std::move(record));
  }
  return rows;
}

bool SendRead(PostgresConnection& connection, const PostgresStatement& statement,
              const PostgresArray& ids) {
  return connection.Send(statement, ReadParameters(ids));
}

absl::StatusOr<std::vector<RecordId>> FindLocked(PostgresConnection& connection,
                                                 const PostgresStatements& statements,
                                                 const PostgresArray& ids) {
  const auto result = connection.Execute(statements.find_locked, ReadParameters(ids));
  if (!result.ok()) return result.status();
  std::vector<RecordId> locked;
  for (int row = 0; row < result->rows(); ++row) locked.push_back(result->GetUuid(row, 0));
  return locked;
}

}  // namespace idempotency::internal
