#include "server/store/postgres/batched/rows.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"

#include "grpc_idempotency/limits.h"
#include "server/store/batch_weight.h"
#include "server/store/postgres/statements/record_columns.h"

namespace idempotency::internal {
namespace {

// The received replies; 0 for a statement that does not read them.
std::size_t ReplyBytesOf(const PostgresResult& result) {
  std::size_t bytes = 0;
  for (int row = 0; row < result.rows(); ++row) {
    bytes += result.ByteaSize(row, record_column::kReply);
  }
  return bytes;
}

// Whether the row of `record` has a reply that was not received.
bool LacksReply(const absl::StatusOr<PostgresRecord>& record, const PostgresResult& result,
                int row) {
  return record.ok() && record->stored.record.state == RecordState::kCompleted &&
         result.IsNull(row, record_column::kReply);
}

RecordId IdOf(const absl::StatusOr<PostgresRecord>& record, const PostgresResult& result, int row) {
  return record.ok() ? record->stored.record.id : result.GetUuid(row, record_column::kId);
}

// Where `is_full`, the call has as many replies as it may have.
void AddRows(const PostgresResult& result, bool is_full, PostgresRows& rows) {
  for (int row = 0; row < result.rows(); ++row) {
    absl::StatusOr<PostgresRecord> record = ReadRecord(result, row);
    if (is_full && LacksReply(record, result, row)) record->reply_left_out = true;
    const RecordId id = IdOf(record, result, row);
    rows.emplace(id, std::move(record));
  }
}

bool IsFull(std::size_t reply_bytes) {
  BatchWeight weight;
  weight.Add(reply_bytes);
  return weight.IsFull();
}

PostgresParameters ReadParameters(const PostgresArray& ids) {
  PostgresParameters parameters;
  parameters.Add(ids);
  return parameters;
}

PostgresArray ArrayOf(const std::vector<RecordId>& ids) {
  PostgresArray array(PostgresType::kUuid, ids.size());
  for (const RecordId& id : ids) array.AppendUuid(id);
  return array;
}

// Of read_to_reserve: as many replies as there are ids fit the limit together. One alone may have
// any size.
PostgresParameters ReserveParameters(const std::vector<RecordId>& ids) {
  PostgresParameters parameters = ReadParameters(ArrayOf(ids));
  parameters.AddInt8(ids.size() < 2
                         ? std::numeric_limits<std::int64_t>::max()
                         : static_cast<std::int64_t>(limits::kMaxBatchReplyBytes / ids.size()));
  return parameters;
}

// Of read_large_to_reserve, after others with `bytes`, which are below the limit as long as one was
// too large.
PostgresParameters LargeParameters(const std::vector<RecordId>& ids, std::size_t bytes) {
  PostgresParameters parameters = ReadParameters(ArrayOf(ids));
  parameters.AddInt8(static_cast<std::int64_t>(limits::kMaxBatchReplyBytes) -
                     static_cast<std::int64_t>(bytes));
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
  AddRows(*result, IsFull(ReplyBytesOf(*result)), rows);
  return rows;
}

absl::StatusOr<PostgresRows> ReadToReserve(PostgresConnection& connection,
                                           const PostgresStatements& statements,
                                           const std::vector<RecordId>& ids) {
  const auto result = connection.Execute(statements.read_to_reserve, ReserveParameters(ids));
  if (!result.ok()) return result.status();
  PostgresRows rows;
  rows.reserve(static_cast<std::size_t>(result->rows()));
  absl::flat_hash_set<RecordId> large;
  for (int row = 0; row < result->rows(); ++row) {
    absl::StatusOr<PostgresRecord> record = ReadRecord(*result, row);
    const RecordId id = IdOf(record, *result, row);
    if (LacksReply(record, *result, row)) {
      large.insert(id);
    } else {
      rows.emplace(id, std::move(record));
    }
  }
  if (large.empty()) return rows;
  std::vector<RecordId> in_order;
  in_order.reserve(large.size());
  for (const RecordId& id : ids) {
    if (large.contains(id)) in_order.push_back(id);
  }
  // They may have changed: only what is read now counts, and one that is not there is no row.
  const std::size_t bytes = ReplyBytesOf(*result);
  const auto rest =
      connection.Execute(statements.read_large_to_reserve, LargeParameters(in_order, bytes));
  if (!rest.ok()) return rest.status();
  AddRows(*rest, IsFull(bytes + ReplyBytesOf(*rest)), rows);
  return rows;
}

bool SendReadToReserve(PostgresConnection& connection, const PostgresStatements& statements,
                       const std::vector<RecordId>& ids) {
  return connection.Send(statements.read_to_reserve, ReserveParameters(ids));
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
