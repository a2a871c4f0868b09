#include "server/store/postgres/single_row/orphans.h"

#include <cstddef>
#include <vector>

#include "absl/time/time.h"

#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/connection/parameters.h"
#include "server/store/postgres/records/unreadable_rows.h"

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

absl::StatusOr<SingleRowOrphans::Page> SingleRowOrphans::ReadUntil(const RecordId& after,
                                                                   const RecordId& until) {
  PostgresParameters parameters;
  parameters.Add(after);
  parameters.Add(until);
  parameters.Add(kPage);
  // Columns: id, record_created_at.
  const auto rows =
      records_.connection().ExecuteOne(records_.statements().walk_checkpoints, parameters);
  if (!rows.ok()) return rows.status();
  Page page;
  for (int row = 0; row < rows->rows(); ++row) {
    page.ids.push_back(rows->GetUuid(row, 0));
    page.lives.push_back(rows->Time(row, 1));
  }
  if (rows->rows() == kPage) page.next = page.ids.back();
  return page;
}

absl::StatusOr<SingleRowOrphans::Page> SingleRowOrphans::Read(const RecordId& after) {
  absl::StatusOr<Page> page = ReadUntil(after, LastId());
  if (!IsUnreadable(page.status())) return page;
  const auto probe = [&](const RecordId& until) -> absl::StatusOr<bool> {
    const absl::Status read = ReadUntil(after, until).status();
    if (!read.ok()) return read;
    return false;
  };
  const auto place = FindUnreadable(records_.connection(), after, LastId(), probe, page.status());
  if (!place.ok()) return place.status();
  page = ReadUntil(after, PlaceBefore({"", place->value()}).id);
  if (page.ok() && page->next.is_nil()) page->next = place->value();
  return page;
}

absl::StatusOr<RecordId> SingleRowOrphans::Step(const RecordId& after) {
  const absl::StatusOr<Page> page = Read(after);
  if (!page.ok()) return page.status();
  const std::vector<SingleRowRecords::Row> rows = records_.Read(page->ids, {});
  std::vector<PostgresParameters> executions;
  for (std::size_t i = 0; i < page->ids.size(); ++i) {
    if (!IsOver(rows[i], page->lives[i])) continue;
    PostgresParameters& checkpoint = executions.emplace_back();
    checkpoint.Add(page->ids[i]);
    checkpoint.Add(page->lives[i]);
  }
  records_.connection().ExecuteEach(records_.statements().remove_checkpoint, executions,
                                    PostgresConnection::LockWait::kBrief);
  return page->next;
}

}  // namespace idempotency::internal
