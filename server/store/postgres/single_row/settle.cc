#include "server/store/postgres/single_row/settle.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/sha256.h"
#include "server/store/batch_weight.h"
#include "server/store/decision.h"
#include "server/store/limits.h"
#include "server/store/postgres/records/operation_parameters.h"
#include "server/store/postgres/records/reply_slices.h"
#include "server/store/postgres/records/settle_findings.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

// Replies that one pipeline carries, in bytes, unless one is larger: this side holds them about
// twice.
constexpr std::size_t kMaxPipelineBytes = 16 * 1024 * 1024;

// Reads the records of `indices`, which their statements did not hit, and settles the operations by
// them.
template <typename Op, typename Answer>
void SettleEachByReading(SingleRowRecords& records, const SingleRowTime& time,
                         PostgresBatch<Op, Answer>& batch,
                         const std::vector<std::size_t>& indices) {
  std::vector<SingleRowRecords::Row> rows = records.ReadToSettle(RecordIdsOf(batch, indices));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (absl::IsDataLoss(rows[i].status())) {
      batch.Settle(indices[i], Answer(rows[i].status()));
      continue;
    }
    if (!rows[i].ok()) {
      FailRow(batch, indices[i], rows[i].status());
      continue;
    }
    std::optional<StoredRecord> stored;
    if (*rows[i]) stored = std::move((*rows[i])->stored);
    std::optional<Answer> answer = SettleFinding(batch.op(indices[i]), time.judged, stored);
    if (answer) batch.Settle(indices[i], *std::move(answer));
  }
}

void WriteReplies(SingleRowRecords& records, const SingleRowTime& time, CompleteBatch& batch,
                  const CompleteBatch::Indices& indices) {
  std::vector<PostgresParameters> executions;
  for (const std::size_t index : indices) {
    const CompleteOp& op = batch.op(index);
    PostgresParameters& parameters = executions.emplace_back(HolderParameters(op));
    parameters.AddBytes(op.reply.bytes);
    parameters.AddBytes(AsBytes(op.reply.digest));
    parameters.Add(time.now);
    parameters.Add(time.judged);
  }
  const auto written = records.connection().ExecuteEach(records.statements().complete, executions);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (!written[i].ok()) {
      FailWrite(records, batch, indices[i], written[i].status());
    } else if (written[i]->rows() > 0) {
      // Columns: expires_at, lease_until.
      Completion completion;
      completion.completed_at = time.now;
      completion.expires_at = written[i]->Time(0, 0);
      completion.lease_overrun = time.now >= written[i]->Time(0, 1);
      batch.Settle(indices[i], completion);
    }
  }
}

// Columns: created_at, lease_until.
Extension ExtensionFrom(const PostgresResult& row, const SingleRowTime& time) {
  return Extension{std::max(row.Time(0, 1) - time.now, absl::ZeroDuration())};
}

PostgresParameters ExtendParameters(const ExtendOp& op, const SingleRowTime& time) {
  PostgresParameters parameters = HolderParameters(op);
  parameters.Add(time.now + op.lease);
  parameters.Add(time.judged);
  return parameters;
}

// Nothing if the record is not held.
absl::StatusOr<std::optional<Extension>> ExtendWithCheckpoint(SingleRowRecords& records,
                                                              const SingleRowTime& time,
                                                              const ExtendOp& op) {
  PostgresConnection& connection = records.connection();
  if (absl::Status begun = connection.Begin(); !begun.ok()) return begun;
  const auto write = [&]() -> absl::StatusOr<std::optional<Extension>> {
    const auto extended =
        connection.ExecuteOne(records.statements().extend, ExtendParameters(op, time));
    if (!extended.ok()) return extended.status();
    if (extended->rows() == 0) return std::optional<Extension>();
    PostgresParameters parameters;
    parameters.Add(op.id);
    parameters.Add(extended->Time(0, 0));
    parameters.AddBytes(*op.checkpoint);
    const auto stored = connection.ExecuteOne(records.statements().store_checkpoint, parameters);
    if (!stored.ok()) return stored.status();
    return std::optional<Extension>(ExtensionFrom(*extended, time));
  };
  absl::StatusOr<std::optional<Extension>> extension = write();
  if (!extension.ok()) {
    connection.Rollback().IgnoreError();
    return extension;
  }
  if (absl::Status committed = connection.Commit(); !committed.ok()) return committed;
  return extension;
}

}  // namespace

absl::Status SingleRowCompleteRound(SingleRowRecords& records, CompleteBatch& batch,
                                    const CompleteBatch::Indices& pending) {
  const absl::StatusOr<SingleRowTime> time = records.ReadTime();
  if (!time.ok()) return time.status();
  for (const auto& slice : SliceByReplies(batch, pending, kMaxPipelineBytes)) {
    WriteReplies(records, *time, batch, slice);
  }
  SettleEachByReading(records, *time, batch, batch.Unanswered(pending));
  return absl::OkStatus();
}

absl::Status SingleRowReleaseRound(SingleRowRecords& records, ReleaseBatch& batch,
                                   const ReleaseBatch::Indices& pending) {
  const absl::StatusOr<SingleRowTime> time = records.ReadTime();
  if (!time.ok()) return time.status();
  std::vector<PostgresParameters> executions;
  for (const std::size_t index : pending) {
    const ReleaseOp& op = batch.op(index);
    PostgresParameters& parameters = executions.emplace_back(HolderParameters(op));
    parameters.AddInt2(
        ToProto(op.outcome_unknown ? RecordState::kUnknown : RecordState::kReleased));
    parameters.AddBool(op.outcome_unknown);
    parameters.AddBytes(StoredReason(op));
    parameters.Add(op.outcome_unknown ? time->now : time->now + op.pause);
    parameters.Add(time->judged);
  }
  const auto written = records.connection().ExecuteEach(records.statements().release, executions);
  for (std::size_t i = 0; i < pending.size(); ++i) {
    if (!written[i].ok()) {
      FailWrite(records, batch, pending[i], written[i].status());
    } else if (written[i]->rows() > 0) {
      batch.Settle(pending[i], absl::OkStatus());
    }
  }
  SettleEachByReading(records, *time, batch, batch.Unanswered(pending));
  return absl::OkStatus();
}

absl::Status SingleRowExtendRound(SingleRowRecords& records, ExtendBatch& batch,
                                  const ExtendBatch::Indices& pending) {
  const absl::StatusOr<SingleRowTime> time = records.ReadTime();
  if (!time.ok()) return time.status();
  ExtendBatch::Indices plain;
  std::vector<PostgresParameters> executions;
  for (const std::size_t index : pending) {
    if (batch.op(index).checkpoint) continue;
    plain.push_back(index);
    executions.push_back(ExtendParameters(batch.op(index), *time));
  }
  const auto written = records.connection().ExecuteEach(records.statements().extend, executions);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (!written[i].ok()) {
      FailWrite(records, batch, plain[i], written[i].status());
    } else if (written[i]->rows() > 0) {
      batch.Settle(plain[i], ExtensionFrom(*written[i], *time));
    }
  }
  int lock_waits = 0;
  for (const std::size_t index : pending) {
    if (!batch.op(index).checkpoint) continue;
    if (lock_waits == kMaxPostgresLockWaits) {
      FailRow(batch, index, absl::CancelledError("too many rows before it are locked"));
      continue;
    }
    auto extension = ExtendWithCheckpoint(records, *time, batch.op(index));
    if (!extension.ok()) {
      if (IsLeftAlone(extension.status())) ++lock_waits;
      FailWrite(records, batch, index, extension.status());
    } else if (*extension) {
      batch.Settle(index, **extension);
    }
  }
  SettleEachByReading(records, *time, batch, batch.Unanswered(pending));
  return absl::OkStatus();
}

absl::Status SingleRowGetRound(SingleRowRecords& records, GetBatch& batch,
                               const GetBatch::Indices& pending) {
  const absl::StatusOr<SingleRowTime> time = records.ReadTime();
  if (!time.ok()) return time.status();
  const bool confirmed = std::any_of(pending.begin(), pending.end(), [&batch](std::size_t index) {
    return batch.op(index).confirmed;
  });
  std::vector<SingleRowRecords::Row> rows =
      ReadReplies(records, batch, pending, {limits::kMaxBatchReplyBytes, confirmed});
  for (std::size_t i = 0; i < pending.size(); ++i) {
    const GetOp& op = batch.op(pending[i]);
    if (absl::IsDataLoss(rows[i].status())) {
      batch.Settle(pending[i], rows[i].status());
    } else if (!rows[i].ok()) {
      FailRow(batch, pending[i], rows[i].status());
    } else if (!*rows[i]) {
      batch.Settle(pending[i], DecideGet(op, time->judged, std::nullopt));
    } else if ((*rows[i])->reply_left_out) {
      batch.Settle(pending[i], BatchWeight::NextCall());
    } else {
      batch.Settle(pending[i], DecideGet(op, time->judged, std::move((*rows[i])->stored)));
    }
  }
  return absl::OkStatus();
}

}  // namespace idempotency::internal
