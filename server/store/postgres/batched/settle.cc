#include "server/store/postgres/batched/settle.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/sha256.h"
#include "server/store/postgres/batched/columns.h"
#include "server/store/postgres/batched/rows.h"
#include "server/store/postgres/records/operation_parameters.h"
#include "server/store/postgres/records/reply_slices.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

// Replies that one statement carries, in bytes, unless one is larger. This side
// holds them about three times over while a statement is put together, on every
// connection; where they are larger, a commit is the smaller cost.
constexpr std::size_t kMaxStatementBytes = 4 * 1024 * 1024;

// $1-$6: ids, tokens, and the four parts of the keys.
template <typename Op, typename Answer>
PostgresParameters Holders(const PostgresBatch<Op, Answer>& batch,
                           const std::vector<std::size_t>& indices) {
  const auto op = [&batch](std::size_t index) -> const Op& { return batch.op(index); };
  PostgresParameters parameters;
  parameters.Add(Column(PostgresType::kUuid, indices, [&](std::size_t i) { return op(i).id; }));
  parameters.Add(Column(PostgresType::kUuid, indices, [&](std::size_t i) { return op(i).token; }));
  AddKeyColumns(
      indices, [&](std::size_t i) { return &op(i).key; }, parameters);
  return parameters;
}

const PostgresStatement& CompleteStatement(const PostgresStatements& statements, std::size_t size) {
  return size == 1 ? statements.complete_one : statements.complete;
}

// Of that statement.
PostgresParameters ParametersOf(const CompleteBatch& batch, const CompleteBatch::Indices& indices) {
  if (indices.size() > 1) return CompleteParameters(batch, indices);
  const CompleteOp& op = batch.op(indices.front());
  PostgresParameters parameters = HolderParameters(op);
  parameters.AddBytes(op.reply.bytes);
  parameters.AddBytes(AsBytes(op.reply.digest));
  return parameters;
}

absl::Status WriteReplies(PostgresConnection& connection, const PostgresStatements& statements,
                          CompleteBatch& batch, const CompleteBatch::Indices& indices) {
  const auto result = connection.Execute(CompleteStatement(statements, indices.size()),
                                         ParametersOf(batch, indices));
  if (!result.ok()) {
    return SettleFailedWrite(connection, statements, batch, indices, result.status());
  }
  for (int row = 0; row < result->rows(); ++row) SettleCompleted(*result, row, 0, batch);
  return absl::OkStatus();
}

absl::Status WriteExtensions(PostgresConnection& connection, const PostgresStatements& statements,
                             ExtendBatch& batch, const ExtendBatch::Indices& indices,
                             bool with_checkpoints) {
  if (indices.empty()) return absl::OkStatus();
  PostgresParameters parameters = Holders(batch, indices);
  parameters.Add(Column(PostgresType::kInterval, indices,
                        [&](std::size_t index) { return batch.op(index).lease; }));
  if (with_checkpoints) {
    parameters.Add(Column(PostgresType::kBytea, indices, [&](std::size_t index) {
      return batch.op(index).checkpoint.value_or("");
    }));
  }
  const auto result = connection.Execute(
      with_checkpoints ? statements.extend_with_checkpoint : statements.extend, parameters);
  if (!result.ok()) {
    return SettleFailedWrite(connection, statements, batch, indices, result.status());
  }
  // Columns: id, lease_until, now.
  for (int row = 0; row < result->rows(); ++row) {
    const absl::Duration left = result->Time(row, 1) - result->Time(row, 2);
    batch.Settle(batch.IndexOf(result->GetUuid(row, 0)),
                 Extension{std::max(left, absl::ZeroDuration())});
  }
  return absl::OkStatus();
}

}  // namespace

PostgresParameters CompleteParameters(const CompleteBatch& batch,
                                      const CompleteBatch::Indices& indices) {
  PostgresParameters parameters = Holders(batch, indices);
  parameters.Add(Column(PostgresType::kBytea, indices, [&](std::size_t index) -> std::string_view {
    return batch.op(index).reply.bytes;
  }));
  parameters.Add(Column(PostgresType::kBytea, indices,
                        [&](std::size_t index) { return AsBytes(batch.op(index).reply.digest); }));
  return parameters;
}

void SettleCompleted(const PostgresResult& result, int row, int column, CompleteBatch& batch) {
  Completion completion;
  completion.completed_at = result.Time(row, column + 1);
  completion.expires_at = result.Time(row, column + 2);
  completion.lease_overrun = completion.completed_at >= result.Time(row, column + 3);
  batch.Settle(batch.IndexOf(result.GetUuid(row, column)), completion);
}

absl::Status CompleteRound(PostgresConnection& connection, const PostgresStatements& statements,
                           CompleteBatch& batch, const CompleteBatch::Indices& pending) {
  for (const auto& slice : SliceByReplies(batch, pending, kMaxStatementBytes)) {
    if (absl::Status status = WriteReplies(connection, statements, batch, slice); !status.ok()) {
      return status;
    }
  }
  return SettleByReading(connection, statements, batch, batch.Unanswered(pending));
}

// What fits PostgresConnection::Send is one slice of the round.
static_assert(PostgresConnection::kMaxSentBytes <= kMaxStatementBytes);
bool SendComplete(PostgresConnection& connection, const PostgresStatements& statements,
                  const CompleteBatch& batch, const CompleteBatch::Indices& pending) {
  return connection.Send(CompleteStatement(statements, pending.size()),
                         ParametersOf(batch, pending));
}

absl::Status ReleaseRound(PostgresConnection& connection, const PostgresStatements& statements,
                          ReleaseBatch& batch, const ReleaseBatch::Indices& pending) {
  PostgresParameters parameters = Holders(batch, pending);
  const auto add = [&](PostgresType type, const auto& value_of) {
    parameters.Add(
        Column(type, pending, [&](std::size_t index) { return value_of(batch.op(index)); }));
  };
  add(PostgresType::kInt2, [](const ReleaseOp& op) {
    return static_cast<std::int16_t>(
        ToProto(op.outcome_unknown ? RecordState::kUnknown : RecordState::kReleased));
  });
  add(PostgresType::kText, [](const ReleaseOp& op) { return StoredReason(op); });
  add(PostgresType::kInterval,
      [](const ReleaseOp& op) { return op.outcome_unknown ? absl::ZeroDuration() : op.pause; });
  const auto result = connection.Execute(statements.release, parameters);
  if (!result.ok()) {
    return SettleFailedWrite(connection, statements, batch, pending, result.status());
  }
  for (int row = 0; row < result->rows(); ++row) {
    batch.Settle(batch.IndexOf(result->GetUuid(row, 0)), absl::OkStatus());
  }
  return SettleByReading(connection, statements, batch, batch.Unanswered(pending));
}

absl::Status ExtendRound(PostgresConnection& connection, const PostgresStatements& statements,
                         ExtendBatch& batch, const ExtendBatch::Indices& pending) {
  ExtendBatch::Indices plain;
  ExtendBatch::Indices with_checkpoint;
  for (const std::size_t index : pending) {
    (batch.op(index).checkpoint ? with_checkpoint : plain).push_back(index);
  }
  if (absl::Status status = WriteExtensions(connection, statements, batch, plain, false);
      !status.ok()) {
    return status;
  }
  if (absl::Status status = WriteExtensions(connection, statements, batch, with_checkpoint, true);
      !status.ok()) {
    return status;
  }
  return SettleByReading(connection, statements, batch, batch.Unanswered(pending));
}

}  // namespace idempotency::internal
