#include "server/store/postgres/batched/read.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "server/store/batch_weight.h"
#include "server/store/decision.h"
#include "server/store/postgres/batched/rows.h"

namespace idempotency::internal {

absl::Status GetRound(PostgresConnection& connection, const PostgresStatements& statements,
                      GetBatch& batch, const GetBatch::Indices& pending) {
  const bool confirmed = std::any_of(pending.begin(), pending.end(), [&batch](std::size_t index) {
    return batch.op(index).confirmed;
  });
  auto rows =
      ReadRows(connection, confirmed ? statements.read_whole_confirmed : statements.read_whole,
               IdsOf(batch, GetBatch::InOrder(pending)));
  if (!rows.ok()) return rows.status();
  std::map<RecordId, int> reads;
  for (const std::size_t index : pending) ++reads[batch.op(index).id];
  for (const std::size_t index : pending) {
    const GetOp& op = batch.op(index);
    const auto row = rows->find(op.id);
    if (row == rows->end()) {
      batch.Settle(index, DecideGet(op, absl::Time(), std::nullopt));
    } else if (!row->second.ok()) {
      batch.Settle(index, row->second.status());
    } else if (row->second->reply_left_out) {
      batch.Settle(index, BatchWeight::NextCall());
    } else {
      StoredRecord& stored = row->second->stored;
      // Others of the batch may read the same record.
      const bool last = --reads[op.id] == 0;
      batch.Settle(index, DecideGet(op, row->second->read_at,
                                    last ? std::move(stored) : StoredRecord(stored)));
    }
  }
  return absl::OkStatus();
}

}  // namespace idempotency::internal
