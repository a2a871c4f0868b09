#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_ROWS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_ROWS_H_

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/decision.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/connection/parameters.h"
#include "server/store/postgres/records/batch.h"
#include "server/store/postgres/records/record.h"
#include "server/store/postgres/records/settle_findings.h"
#include "server/store/postgres/statements/batched.h"

namespace idempotency::internal {

// The rows of the requested ids; a damaged row is a separate error.
using PostgresRows = absl::flat_hash_map<RecordId, absl::StatusOr<PostgresRecord>>;

template <typename Op, typename Answer>
PostgresArray IdsOf(const PostgresBatch<Op, Answer>& batch,
                    const std::vector<std::size_t>& indices) {
  PostgresArray ids(PostgresType::kUuid, indices.size());
  for (const std::size_t index : indices) ids.AppendUuid(batch.op(index).id);
  return ids;
}

// Runs a statement that reads records by `ids`.
absl::StatusOr<PostgresRows> ReadRows(PostgresConnection& connection,
                                      const PostgresStatement& statement, const PostgresArray& ids);

// Reads records and replies, up to the limit of one call (PostgresRecord::reply_left_out): the
// first of `ids` is not left out.
absl::StatusOr<PostgresRows> ReadToReserve(PostgresConnection& connection,
                                           const PostgresStatements& statements,
                                           const std::vector<RecordId>& ids);

// Sends the statement that the same call of ReadToReserve() then awaits (PostgresConnection::Send).
bool SendReadToReserve(PostgresConnection& connection, const PostgresStatements& statements,
                       const std::vector<RecordId>& ids);

// Which of `ids` have rows that another connection has locked at this moment. Waits for
// none of them.
absl::StatusOr<std::vector<RecordId>> FindLocked(PostgresConnection& connection,
                                                 const PostgresStatements& statements,
                                                 const PostgresArray& ids);

// Fails the operations among `indices` whose rows are locked by another connection.
template <typename Op, typename Answer>
absl::Status SetAsideLocked(PostgresConnection& connection, const PostgresStatements& statements,
                            PostgresBatch<Op, Answer>& batch,
                            const std::vector<std::size_t>& indices) {
  const auto locked = FindLocked(connection, statements, IdsOf(batch, indices));
  if (!locked.ok()) return locked.status();
  for (const RecordId& id : *locked) batch.FailLocked(batch.IndexOf(id));
  return absl::OkStatus();
}

// RunRounds over all of `batch` that has no answer yet, on one connection.
template <typename Op, typename Answer, typename Round>
void RunRoundsOn(PostgresConnection& connection, const PostgresStatements& statements,
                 PostgresBatch<Op, Answer>& batch, Round& round) {
  const auto set_aside = [&](const std::vector<std::size_t>& pending) {
    return SetAsideLocked(connection, statements, batch, pending);
  };
  int lock_waits = kMaxPostgresLockWaits;
  RunRounds(batch, batch.Unanswered(batch.All()), round, set_aside, lock_waits);
}

// Reads the rows of `indices`, which their statements did not hit, and settles the
// operations by them.
template <typename Op, typename Answer>
absl::Status SettleByReading(PostgresConnection& connection, const PostgresStatements& statements,
                             PostgresBatch<Op, Answer>& batch,
                             const std::vector<std::size_t>& indices) {
  if (indices.empty()) return absl::OkStatus();
  auto rows = ReadRows(connection, statements.read_to_settle, IdsOf(batch, indices));
  if (!rows.ok()) return rows.status();
  for (const std::size_t index : indices) {
    const auto row = rows->find(batch.op(index).id);
    if (row != rows->end() && !row->second.ok()) {
      batch.Settle(index, Answer(row->second.status()));
      continue;
    }
    std::optional<StoredRecord> stored;
    absl::Time now;  // of no meaning without a row
    if (row != rows->end()) {
      stored = std::move(row->second->stored);
      now = row->second->read_at;
    }
    std::optional<Answer> answer = SettleFinding(batch.op(index), now, stored);
    if (answer) batch.Settle(index, *std::move(answer));
  }
  return absl::OkStatus();
}

// After a statement that writes the rows of `indices` failed. Of one row alone that the server
// cannot write, as on a damaged page of an index, the row decides: only one that cannot be read to
// settle it is a damaged record. Returns what still fails the statement of all.
template <typename Op, typename Answer>
absl::Status SettleFailedWrite(PostgresConnection& connection, const PostgresStatements& statements,
                               PostgresBatch<Op, Answer>& batch,
                               const std::vector<std::size_t>& indices,
                               const absl::Status& failure) {
  if (!absl::IsDataLoss(failure) || indices.size() != 1) return failure;
  const auto rows = ReadRows(connection, statements.read_to_settle, IdsOf(batch, indices));
  absl::Status read = rows.status();
  if (!read.ok() && !absl::IsDataLoss(read)) return read;
  if (read.ok() && !rows->empty()) read = rows->begin()->second.status();
  if (read.ok()) read = absl::UnavailableError("not written");
  batch.Settle(indices.front(), Answer(ToCallerStatus(read)));
  return absl::OkStatus();
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_ROWS_H_
