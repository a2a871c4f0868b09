#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_RECORDS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_RECORDS_H_

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/decision.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/connection/parameters.h"
#include "server/store/postgres/records/batch.h"
#include "server/store/postgres/records/record.h"
#include "server/store/postgres/records/unreadable_places.h"
#include "server/store/postgres/statements/single_row.h"

namespace idempotency::internal {

// The time of one round: read from the node that the connection reaches before the round's records.
// So a lease that is over by it is over.
struct SingleRowTime {
  // For what is written: created_at, the ends of leases and retentions.
  absl::Time now;
  // For whether a lease is over, or a record forgotten: PostgresOptions::clock_margin earlier, so
  // that it is so by the clock of any node.
  absl::Time judged;
};

// The records of one connection, each read and written by statements of its own
// (PostgresStatementMode::kSingleRow). Makes no decisions. Thread-compatible.
class SingleRowRecords {
 public:
  // The references outlive it.
  SingleRowRecords(PostgresConnection& connection, const SingleRowStatements& statements,
                   UnreadablePlaces& unreadable, absl::Duration clock_margin)
      : connection_(connection),
        statements_(statements),
        unreadable_(unreadable),
        clock_margin_(clock_margin) {}

  PostgresConnection& connection() { return connection_; }
  const SingleRowStatements& statements() const { return statements_; }
  UnreadablePlaces& unreadable() { return unreadable_; }

  absl::StatusOr<SingleRowTime> ReadTime();

  // What is read of records.
  struct Detail {
    // Replies of this many bytes together, or one that is larger; then
    // PostgresRecord::reply_left_out.
    std::size_t reply_bytes = 0;
    // The answer is as durable as a new promise (PostgresStatements::read_to_reserve).
    bool confirmed = false;
  };
  // One for each of `ids`: nullopt if there is none, DATA_LOSS / RECORD_DAMAGED, or how its
  // statement failed. Without checkpoints; `read_at` is not set.
  using Row = absl::StatusOr<std::optional<PostgresRecord>>;
  std::vector<Row> Read(absl::Span<const RecordId> ids, const Detail& detail);
  // The same of what decisions about a known record depend on: another value damages no record
  // here, such as its labels. Confirmed.
  std::vector<Row> ReadToSettle(absl::Span<const RecordId> ids);

  // A checkpoint outlives its record until the key's next life, or the sweep, clears it.
  enum class Life { kPresent, kAny };
  // Reads the checkpoints of `records`, and adds those of `life`. One status for each: of its own
  // statement, or DATA_LOSS / RECORD_DAMAGED.
  std::vector<absl::Status> AddCheckpoints(absl::Span<StoredRecord* const> records, Life life);

 private:
  std::vector<Row> ReadUpTo(absl::Span<const RecordId> ids, bool confirmed,
                            std::int64_t largest_reply);

  PostgresConnection& connection_;
  const SingleRowStatements& statements_;
  UnreadablePlaces& unreadable_;
  const absl::Duration clock_margin_;
};

// $1-$6 of the statements that match a record as it was read.
PostgresParameters RowVersionParameters(const StoredRecord& stored);
// Those of `remove`.
PostgresParameters RemoveParameters(const StoredRecord& stored);
// Those of `entomb`: the key is refused for `refused` from `now`.
PostgresParameters EntombParameters(const StoredRecord& stored, absl::Duration refused,
                                    absl::Time now);

// Settles an operation whose own statement failed; others are not affected. A read of a damaged
// record has its answer already (SingleRowRecords::Row).
template <typename Op, typename Answer>
void FailRow(PostgresBatch<Op, Answer>& batch, std::size_t index, const absl::Status& failure) {
  if (IsLocked(failure)) {
    batch.FailLocked(index);
  } else {
    batch.Settle(index, Answer(ToCallerStatus(failure)));
  }
}

// The same where it was a write. Of a row that the server cannot write, as on a damaged page of an
// index, the row decides: only one that cannot be read to settle it is a damaged record.
template <typename Op, typename Answer>
void FailWrite(SingleRowRecords& records, PostgresBatch<Op, Answer>& batch, std::size_t index,
               const absl::Status& failure) {
  if (!absl::IsDataLoss(failure)) return FailRow(batch, index, failure);
  const SingleRowRecords::Row row = records.ReadToSettle({&batch.op(index).id, 1}).front();
  if (absl::IsDataLoss(row.status())) return batch.Settle(index, Answer(row.status()));
  FailRow(batch, index, row.ok() ? absl::UnavailableError("not written") : row.status());
}

template <typename Op, typename Answer>
std::vector<RecordId> RecordIdsOf(const PostgresBatch<Op, Answer>& batch,
                                  const std::vector<std::size_t>& indices) {
  std::vector<RecordId> ids;
  ids.reserve(indices.size());
  for (const std::size_t index : indices) ids.push_back(batch.op(index).id);
  return ids;
}

// The rows of `indices`, read in the order of the operations: the first one's reply is not left
// out.
template <typename Op, typename Answer>
std::vector<SingleRowRecords::Row> ReadReplies(SingleRowRecords& records,
                                               const PostgresBatch<Op, Answer>& batch,
                                               const std::vector<std::size_t>& indices,
                                               const SingleRowRecords::Detail& detail) {
  const std::vector<std::size_t> in_order = PostgresBatch<Op, Answer>::InOrder(indices);
  std::vector<SingleRowRecords::Row> read = records.Read(RecordIdsOf(batch, in_order), detail);
  std::vector<SingleRowRecords::Row> rows;
  rows.reserve(indices.size());
  for (const std::size_t index : indices) {
    const auto place = std::lower_bound(in_order.begin(), in_order.end(), index);
    rows.push_back(std::move(read[static_cast<std::size_t>(place - in_order.begin())]));
  }
  return rows;
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_RECORDS_H_
