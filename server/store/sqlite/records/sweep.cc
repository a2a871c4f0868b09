// The reads of the sweep, and the ways in which a record loses its content or its row.
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "core/sha256.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/sqlite/records.h"
#include "server/store/sqlite/records/row.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

constexpr char kSweepColumns[] =
    "SELECT id, token, attempt, state, on_lease_expiry, lease_expires_at, expires_at, reply_until,"
    " tombstone_until, status_digest IS NOT NULL, length(fingerprints) = 0, length(reply)"
    " FROM records";
constexpr char kSweepRange[] = " WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3";
// From the index alone.
constexpr char kSweepIds[] = "SELECT id FROM records";
constexpr char kRemove[] = "DELETE FROM records WHERE id = ?1 AND token = ?2 AND attempt = ?3";
constexpr char kEntomb[] =
    "UPDATE records SET state = 3, request_token = NULL, recovering = 0, completed_at = NULL,"
    " fingerprints = x'', release_reason = '', annotations = NULL, reply_digest = NULL,"
    " reply = NULL, reply_until = NULL, status_digest = NULL, parent_key = NULL"
    " WHERE id = ?1 AND token = ?2 AND attempt = ?3";
constexpr char kRemoveCheckpoint[] = "DELETE FROM checkpoints WHERE id = ?1";
constexpr char kDropReply[] =
    "UPDATE records SET reply = ?4, status_digest = ?5"
    " WHERE id = ?1 AND token = ?2 AND attempt = ?3 AND state = 2";

// Of the columns of kSweepColumns.
bool ReadSweepView(const SqliteStatement& row, SweepView& view) {
  const auto state = RecordStateFrom(row.Integer(3).value_or(0));
  const auto policy = LeaseExpiryFrom(row.Integer(4).value_or(0));
  const auto lease_expires_at = row.Time(5);
  const auto expires_at = row.Time(6);
  const auto reply_dropped = row.Integer(9);
  const auto entombed = row.Integer(10);
  if (!state || !policy || !lease_expires_at || !expires_at || !reply_dropped || !entombed ||
      !ReadSqliteTime(row, 7, view.reply_expires_at) ||
      !ReadSqliteTime(row, 8, view.tombstone_until)) {
    return false;
  }
  view.state = *state;
  view.on_lease_expiry = *policy;
  view.lease_expires_at = *lease_expires_at;
  view.expires_at = *expires_at;
  view.reply_dropped = *reply_dropped != 0;
  view.entombed = *entombed != 0;
  return !view.tombstone_until || *view.tombstone_until > view.expires_at;
}

RecordId HighestId() {
  Uuid::Bytes highest;
  highest.fill(0xFF);
  return RecordId(highest);
}

// `last` outlives the run.
void BindSweepRange(const std::optional<RecordId>& after, const RecordId& last, int limit,
                    SqliteStatement& run) {
  if (after) {
    run.Bind(1, *after);
  } else {
    // Below every id.
    run.BindBlob(1, "");
  }
  run.Bind(2, last);
  run.Bind(3, std::int64_t{limit});
}

// Whether a column behind the reply has a value: SQLite followed the reply's pages to it.
bool ReadsReply(const SqliteStatement& row) {
  return !row.IsNull(7) || !row.IsNull(8) || row.Integer(9).value_or(0) != 0;
}

// Unless a column is damaged.
void AddSweepRow(const SqliteStatement& row, std::vector<SqliteRecords::SweepRow>& rows) {
  const auto id = row.UuidBlob(0);
  const auto token = row.UuidBlob(1);
  const auto attempt = SqliteAttemptFrom(row.Integer(2));
  SweepView view;
  if (id && token && attempt && ReadSweepView(row, view)) {
    rows.push_back({*id, RowVersion{*token, *attempt}, view, row.Integer(11).value_or(0)});
  }
}

}  // namespace

absl::Status SqliteRecords::PrepareSweep(SqliteConnection& connection) {
  return PrepareAll(connection, {{sweep_page_, absl::StrCat(kSweepColumns, kSweepRange)},
                                 {sweep_ids_, absl::StrCat(kSweepIds, kSweepRange)},
                                 {sweep_row_, absl::StrCat(kSweepColumns, " WHERE id = ?1")},
                                 {remove_, kRemove},
                                 {entomb_, kEntomb},
                                 {remove_checkpoint_, kRemoveCheckpoint},
                                 {drop_reply_, kDropReply}});
}

absl::StatusOr<SqliteRecords::SweepPage> SqliteRecords::ReadSweepPage(
    const std::optional<RecordId>& after, const std::optional<RecordId>& until, int limit) {
  const RecordId last = until.value_or(HighestId());
  SweepPage page;
  std::int64_t bytes = 0;
  SqliteStatement::Run run(sweep_page_);
  BindSweepRange(after, last, limit, *run);
  for (absl::StatusOr<bool> row = run->Step();; row = run->Step()) {
    if (!row.ok()) {
      return run->met_damage() ? ReadSweepRows(after, last, limit)
                               : absl::StatusOr<SweepPage>(row.status());
    }
    if (!*row) return page;
    page.looked_at += 1;
    if (const auto id = run->UuidBlob(0)) page.last = id;
    AddSweepRow(*run, page.rows);
    if (ReadsReply(*run)) bytes += run->Integer(11).value_or(0);
    page.more = page.looked_at == limit || bytes >= kMaxStepBytes;
    if (page.more) return page;
  }
}

absl::StatusOr<SqliteRecords::SweepPage> SqliteRecords::ReadSweepRows(
    const std::optional<RecordId>& after, const RecordId& last, int limit) {
  std::vector<RecordId> ids;
  {
    SqliteStatement::Run run(sweep_ids_);
    BindSweepRange(after, last, limit, *run);
    for (absl::StatusOr<bool> row = run->Step();; row = run->Step()) {
      if (!row.ok()) return row.status();
      if (!*row) break;
      ids.push_back(run->UuidBlob(0).value_or(RecordId()));
    }
  }
  SweepPage page;
  page.more = ids.size() == static_cast<std::size_t>(limit);
  std::int64_t bytes = 0;
  for (const RecordId& id : ids) {
    if (bytes >= kMaxStepBytes) {
      page.more = true;
      return page;
    }
    page.looked_at += 1;
    page.last = id;
    SqliteStatement::Run run(sweep_row_);
    run->Bind(1, id);
    const absl::StatusOr<bool> row = run->Step();
    if (!row.ok() && !run->met_damage()) return row.status();
    if (!row.ok() || !*row) continue;
    AddSweepRow(*run, page.rows);
    if (ReadsReply(*run)) bytes += run->Integer(11).value_or(0);
  }
  return page;
}

absl::Status SqliteRecords::Remove(const RecordId& id, const RowVersion& expected) {
  SqliteStatement::Run run(remove_);
  run->Bind(1, id);
  run->Bind(2, expected.token);
  run->Bind(3, std::int64_t{expected.attempt});
  return ChangeOneToMaintain(*run);
}

absl::Status SqliteRecords::RemoveToStartAfresh(const RecordId& id, const RowVersion& expected) {
  SqliteStatement::Run run(remove_);
  run->Bind(1, id);
  run->Bind(2, expected.token);
  run->Bind(3, std::int64_t{expected.attempt});
  return run->ChangeOne();
}

absl::Status SqliteRecords::LeaveTombstone(const RecordId& id, const RowVersion& expected) {
  {
    SqliteStatement::Run run(entomb_);
    run->Bind(1, id);
    run->Bind(2, expected.token);
    run->Bind(3, std::int64_t{expected.attempt});
    if (const absl::Status entombed = ChangeOneToMaintain(*run); !entombed.ok()) return entombed;
  }
  SqliteStatement::Run run(remove_checkpoint_);
  run->Bind(1, id);
  const absl::Status removed = run->Step().status();
  return run->met_damage() ? DamagedSqliteRow() : removed;
}

absl::Status SqliteRecords::DropReply(const RecordId& id, const EncodedReply& rest,
                                      const RowVersion& expected) {
  const std::string_view digest = AsBytes(rest.digest);
  SqliteStatement::Run run(drop_reply_);
  run->Bind(1, id);
  run->Bind(2, expected.token);
  run->Bind(3, std::int64_t{expected.attempt});
  run->BindBlob(4, rest.bytes);
  run->BindBlob(5, digest);
  return ChangeOneToMaintain(*run);
}

}  // namespace idempotency::internal
