#include "server/store/postgres_rows.h"

namespace idempotency {

absl::StatusOr<PostgresRows> ReadRows(PostgresConnection& connection,
                                      const PostgresStatement& statement,
                                      const PostgresArray& ids) {
  PostgresParameters parameters;
  parameters.Add(ids);
  const auto result = connection.Execute(statement, parameters);
  if (!result.ok()) return result.status();
  PostgresRows rows;
  rows.reserve(static_cast<std::size_t>(result->rows()));
  for (int row = 0; row < result->rows(); ++row) {
    rows.emplace(result->GetUuid(row, record_column::kId), ReadRecord(*result, row));
  }
  return rows;
}

}  // namespace idempotency
