#include "server/store/postgres/single_row/orphans.h"

#include <cstddef>
#include <vector>

#include "absl/time/time.h"

namespace idempotency::internal {
namespace {

// The record is read after the checkpoint: one that has the checkpoint's life is still there, or
// never comes back.
bool IsOver(const SingleRowRecords::Row& row, absl::Time life) {
  if (!row.ok()) return false;
  if (!*row) return true;
  const Record& record = (*row)->stored.record;
  // A tombstone may have another created_at than its record had.
  return record.created_at > life || record.fingerprints.empty();
}

}  // namespace

absl::StatusOr<RecordId> SingleRowOrphans::Step(const RecordId& after) {
  PostgresConnection& connection = records_.connection();
  PostgresParameters parameters;
  parameters.Add(after);
  parameters.Add(kPage);
  // Columns: id, record_created_at.
  const auto page = connection.ExecuteOne(records_.statements().walk_checkpoints, parameters);
  if (!page.ok()) return page.status();
  std::vector<RecordId> ids;
  for (int row = 0; row < page->rows(); ++row) ids.push_back(page->GetUuid(row, 0));
  const std::vector<SingleRowRecords::Row> rows = records_.Read(ids, {});
  std::vector<PostgresParameters> executions;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const absl::Time life = page->Time(static_cast<int>(i), 1);
    if (!IsOver(rows[i], life)) continue;
    PostgresParameters& checkpoint = executions.emplace_back();
    checkpoint.Add(ids[i]);
    checkpoint.Add(life);
  }
  connection.ExecuteEach(records_.statements().remove_checkpoint, executions,
                         PostgresConnection::LockWait::kBrief);
  return page->rows() < kPage ? RecordId() : ids.back();
}

}  // namespace idempotency::internal
