#include "server/store/postgres/single_row/records.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "grpc_idempotency/errors.h"
#include "server/store/admin_decision.h"
#include "server/store/postgres/records/operation_parameters.h"
#include "server/store/postgres/statements/record_columns.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

// Of a statement that reads one record: a row that the server cannot read is a damaged record.
absl::Status OfRecord(const absl::Status& failure) {
  return absl::IsDataLoss(failure) ? ToCallerStatus(failure) : failure;
}

SingleRowRecords::Row RowFrom(const PostgresResult& row) {
  if (row.rows() == 0) return std::optional<PostgresRecord>();
  absl::StatusOr<PostgresRecord> read = ReadRecord(row, 0);
  if (!read.ok()) return read.status();
  read->reply_left_out =
      read->stored.record.state == RecordState::kCompleted && row.IsNull(0, record_column::kReply);
  return std::optional<PostgresRecord>(*std::move(read));
}

}  // namespace

PostgresParameters RowVersionParameters(const StoredRecord& stored) {
  PostgresParameters parameters;
  parameters.Add(stored.record.id);
  parameters.Add(stored.record.token);
  parameters.Add(static_cast<std::int32_t>(stored.record.attempt));
  parameters.AddInt2(ToProto(stored.record.state));
  parameters.Add(stored.record.lease_expires_at);
  parameters.Add(stored.record.expires_at);
  return parameters;
}

PostgresParameters RemoveParameters(const StoredRecord& stored) {
  PostgresParameters parameters = RowVersionParameters(stored);
  AddOptional(stored.record.tombstone_until, parameters);
  return parameters;
}

PostgresParameters EntombParameters(const StoredRecord& stored, absl::Duration refused,
                                    absl::Time now) {
  const TombstoneTimes times = TombstoneOf(stored.record, refused, now);
  PostgresParameters parameters = RowVersionParameters(stored);
  parameters.Add(std::min(stored.record.created_at, times.expires_at));
  parameters.Add(std::min(stored.record.lease_expires_at, times.expires_at));
  parameters.Add(times.expires_at);
  parameters.Add(times.tombstone_until);
  AddOptional(stored.record.tombstone_until, parameters);
  return parameters;
}

absl::StatusOr<SingleRowTime> SingleRowRecords::ReadTime() {
  const auto clock = connection_.Execute(statements_.read_clock, {});
  if (!clock.ok()) return clock.status();
  const absl::Time now = clock->Time(0, 0);
  return SingleRowTime{now, now - clock_margin_};
}

std::vector<SingleRowRecords::Row> SingleRowRecords::ReadUpTo(absl::Span<const RecordId> ids,
                                                              bool confirmed,
                                                              std::int64_t largest_reply) {
  std::vector<PostgresParameters> executions(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    executions[i].Add(ids[i]);
    executions[i].AddInt8(largest_reply);
  }
  std::vector<Row> rows;
  rows.reserve(ids.size());
  for (const auto& read : connection_.ExecuteEach(
           confirmed ? statements_.read_confirmed : statements_.read, executions)) {
    rows.push_back(read.ok() ? RowFrom(*read) : Row(OfRecord(read.status())));
  }
  return rows;
}

std::vector<SingleRowRecords::Row> SingleRowRecords::ReadToSettle(absl::Span<const RecordId> ids) {
  std::vector<PostgresParameters> executions(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) executions[i].Add(ids[i]);
  std::vector<Row> rows;
  rows.reserve(ids.size());
  for (const auto& read : connection_.ExecuteEach(statements_.read_to_settle, executions)) {
    rows.push_back(read.ok() ? RowFrom(*read) : Row(OfRecord(read.status())));
  }
  return rows;
}

// A pipeline's results are all held: each may have its part of the limit. Those with more are read
// one by one.
std::vector<SingleRowRecords::Row> SingleRowRecords::Read(absl::Span<const RecordId> ids,
                                                          const Detail& detail) {
  if (ids.empty()) return {};
  std::vector<Row> rows =
      ReadUpTo(ids, detail.confirmed, static_cast<std::int64_t>(detail.reply_bytes / ids.size()));
  if (detail.reply_bytes == 0) return rows;
  std::size_t bytes = 0;
  const auto count = [&bytes](const Row& row) {
    if (row.ok() && *row && (*row)->stored.record.reply) {
      bytes += (*row)->stored.record.reply->bytes.size();
    }
  };
  for (const Row& row : rows) count(row);
  for (std::size_t i = 0; i < ids.size() && bytes < detail.reply_bytes; ++i) {
    if (!rows[i].ok() || !*rows[i] || !(*rows[i])->reply_left_out) continue;
    rows[i] =
        ReadUpTo(ids.subspan(i, 1), detail.confirmed, std::numeric_limits<std::int64_t>::max())
            .front();
    count(rows[i]);
  }
  return rows;
}

std::vector<absl::Status> SingleRowRecords::AddCheckpoints(absl::Span<StoredRecord* const> records,
                                                           Life life) {
  std::vector<PostgresParameters> executions(records.size());
  for (std::size_t i = 0; i < records.size(); ++i) executions[i].Add(records[i]->record.id);
  const auto read = connection_.ExecuteEach(statements_.read_checkpoint, executions);
  std::vector<absl::Status> answers;
  for (std::size_t i = 0; i < records.size(); ++i) {
    answers.push_back(OfRecord(read[i].status()));
    if (!read[i].ok()) continue;
    // Columns: record_created_at, checkpoint.
    if (read[i]->rows() == 0) continue;
    const bool present = read[i]->Time(0, 0) == records[i]->record.created_at;
    if (life == Life::kPresent && !present) continue;
    records[i]->checkpoint = read[i]->Bytea(0, 1);
  }
  return answers;
}

}  // namespace idempotency::internal
