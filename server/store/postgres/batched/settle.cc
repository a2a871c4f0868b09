#include "server/store/postgres/batched/settle.h"

#include <algorithm>
#include <utility>

#include "core/sha256.h"
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
  PostgresArray ids(PostgresType::kUuid, indices.size());
  PostgresArray tokens(PostgresType::kUuid, indices.size());
  PostgresArray namespaces(PostgresType::kText, indices.size());
  PostgresArray scopes(PostgresType::kText, indices.size());
  PostgresArray operations(PostgresType::kText, indices.size());
  PostgresArray keys(PostgresType::kText, indices.size());
  for (const std::size_t index : indices) {
    const Op& op = batch.op(index);
    ids.AppendUuid(op.id);
    tokens.AppendUuid(op.token);
    namespaces.AppendBytes(op.key.name_space);
    scopes.AppendBytes(op.key.scope);
    operations.AppendBytes(op.key.operation);
    keys.AppendBytes(op.key.key);
  }
  PostgresParameters parameters;
  for (PostgresArray* const column : {&ids, &tokens, &namespaces, &scopes, &operations, &keys}) {
    parameters.Add(std::move(*column));
  }
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
  if (!result.ok()) return result.status();
  for (int row = 0; row < result->rows(); ++row) SettleCompleted(*result, row, 0, batch);
  return absl::OkStatus();
}

absl::Status WriteExtensions(PostgresConnection& connection, const PostgresStatements& statements,
                             ExtendBatch& batch, const ExtendBatch::Indices& indices,
                             bool with_checkpoints) {
  if (indices.empty()) return absl::OkStatus();
  PostgresArray leases(PostgresType::kInterval);
  PostgresArray checkpoints(PostgresType::kBytea);
  for (const std::size_t index : indices) {
    leases.AppendInterval(batch.op(index).lease);
    checkpoints.AppendBytes(batch.op(index).checkpoint.value_or(""));
  }
  PostgresParameters parameters = Holders(batch, indices);
  parameters.Add(leases);
  if (with_checkpoints) parameters.Add(checkpoints);
  const auto result = connection.Execute(
      with_checkpoints ? statements.extend_with_checkpoint : statements.extend, parameters);
  if (!result.ok()) return result.status();
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
  PostgresArray replies(PostgresType::kBytea, indices.size());
  PostgresArray digests(PostgresType::kBytea, indices.size());
  for (const std::size_t index : indices) {
    const EncodedReply& reply = batch.op(index).reply;
    replies.AppendBytes(reply.bytes);
    digests.AppendBytes(AsBytes(reply.digest));
  }
  PostgresParameters parameters = Holders(batch, indices);
  parameters.Add(std::move(replies));
  parameters.Add(std::move(digests));
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
  PostgresArray states(PostgresType::kInt2);
  PostgresArray reasons(PostgresType::kText);
  PostgresArray pauses(PostgresType::kInterval);
  for (const std::size_t index : pending) {
    const ReleaseOp& op = batch.op(index);
    states.AppendInt2(ToProto(op.outcome_unknown ? RecordState::kUnknown : RecordState::kReleased));
    reasons.AppendBytes(StoredReason(op));
    pauses.AppendInterval(op.outcome_unknown ? absl::ZeroDuration() : op.pause);
  }
  PostgresParameters parameters = Holders(batch, pending);
  parameters.Add(states);
  parameters.Add(reasons);
  parameters.Add(pauses);
  const auto result = connection.Execute(statements.release, parameters);
  if (!result.ok()) return result.status();
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
