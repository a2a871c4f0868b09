// Walks through the records of a namespace, of a scope, of a state or of a parent, in steps.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/limits.h"
#include "server/store/sqlite/records.h"
#include "server/store/sqlite/records/row.h"

namespace idempotency::internal {
namespace {

// The walks of an administrator: ?1 namespace or parent's key, ?2 scope, ?3 id, ?4 how many.
// The index is named, so that none is ever a scan of the table, and has all columns.
constexpr char kWalkNamespace[] =
    "SELECT scope, id FROM records INDEXED BY records_by_scope"
    " WHERE namespace = ?1 AND (scope, id) > (?2, ?3) ORDER BY scope, id LIMIT ?4";
constexpr char kWalkScope[] =
    "SELECT scope, id FROM records INDEXED BY records_by_scope"
    " WHERE namespace = ?1 AND scope = ?2 AND id > ?3 ORDER BY id LIMIT ?4";
constexpr char kWalkUnknown[] =
    "SELECT '', id FROM records INDEXED BY records_unknown_by_namespace"
    " WHERE state = 4 AND namespace = ?1 AND ?2 IS NOT NULL AND id > ?3 ORDER BY id LIMIT ?4";
constexpr char kWalkChildren[] =
    "SELECT '', id FROM records INDEXED BY records_by_parent"
    " WHERE parent_key = ?1 AND ?2 IS NOT NULL AND id > ?3 ORDER BY id LIMIT ?4";
// ?1 id, ?2 now. Whether it is live, and the size of its reply, for which only the reply's header
// is read.
constexpr char kMeasureRecord[] =
    "SELECT expires_at > ?2 OR state = 4 OR (state = 1 AND on_lease_expiry = 2),"
    " coalesce(length(reply), 0) FROM records WHERE id = ?1";

// Parameters ?2 and ?3 of a walk.
void BindPlace(SqliteStatement& statement, const RecordPlace& place) {
  statement.BindText(2, place.scope);
  // Below every id.
  if (place.id.is_nil()) {
    statement.BindBlob(3, "");
  } else {
    statement.Bind(3, place.id);
  }
}

}  // namespace

absl::Status SqliteRecords::PrepareWalks(SqliteConnection& connection) {
  return PrepareAll(connection, {{walk_namespace_, kWalkNamespace},
                                 {walk_scope_, kWalkScope},
                                 {walk_unknown_, kWalkUnknown},
                                 {walk_children_, kWalkChildren},
                                 {measure_record_, kMeasureRecord}});
}

SqliteStatement& SqliteRecords::StatementOf(ListWalk walk) {
  switch (walk) {
    case ListWalk::kNamespace:
      return walk_namespace_;
    case ListWalk::kScope:
      return walk_scope_;
    case ListWalk::kUnknown:
      return walk_unknown_;
    case ListWalk::kChildren:
      break;
  }
  return walk_children_;
}

absl::StatusOr<UsageStep> SqliteRecords::MeasureUsage(const UsageOp& op, absl::Time now) {
  const auto places = Places(ListWalk::kNamespace, op.name_space, op.after, op.limit);
  if (!places.ok()) return places.status();
  UsageStep step;
  for (const RecordPlace& place : *places) {
    step.visited += 1;
    SqliteStatement::Run run(measure_record_);
    run->Bind(1, place.id);
    run->Bind(2, now);
    const absl::StatusOr<bool> row = run->Step();
    // One on a damaged page is live: nothing removes it.
    const bool damaged = run->met_damage();
    if (!row.ok() && !damaged) return row.status();
    if (!damaged && (!*row || run->Integer(0).value_or(0) == 0)) continue;
    step.usage.records += 1;
    if (!damaged) step.usage.reply_bytes += run->Integer(1).value_or(0);
  }
  if (step.visited == op.limit) step.next = places->back();
  return step;
}

absl::StatusOr<std::vector<RecordPlace>> SqliteRecords::Places(
    ListWalk walk, std::string_view first_part, const std::optional<RecordPlace>& after,
    int limit) {
  std::vector<RecordPlace> places;
  const RecordPlace place = after.value_or(RecordPlace());
  SqliteStatement::Run run(StatementOf(walk));
  run->BindText(1, first_part);
  BindPlace(*run, place);
  run->Bind(4, std::int64_t{limit});
  for (absl::StatusOr<bool> row = run->Step();; row = run->Step()) {
    if (!row.ok()) return row.status();
    if (!*row) return places;
    places.push_back(
        {std::string(run->Text(0).value_or("")), run->UuidBlob(1).value_or(RecordId())});
  }
}

absl::StatusOr<SqliteRecords::WalkPage> SqliteRecords::Walk(ListWalk walk,
                                                            std::string_view first_part,
                                                            const std::optional<RecordPlace>& after,
                                                            int limit) {
  absl::StatusOr<std::vector<RecordPlace>> places = Places(walk, first_part, after, limit);
  if (!places.ok()) return places.status();
  WalkPage page;
  page.more = places->size() == static_cast<std::size_t>(limit);
  std::int64_t bytes = 0;
  for (RecordPlace& place : *places) {
    if (bytes >= kMaxStepBytes) {
      page.more = true;
      break;
    }
    SqliteStatement::Run run(find_slim_);
    auto stored = StepTo(*run, place.id, Detail::kSlim);
    bytes += run->Integer(kSqliteReplyColumn).value_or(0);
    if (!stored.ok() && !absl::IsDataLoss(stored.status())) return stored.status();
    const bool damaged = !stored.ok();
    page.rows.push_back({std::move(place), damaged ? std::nullopt : *std::move(stored), damaged});
  }
  return page;
}

absl::StatusOr<SqliteRecords::ContentPage> SqliteRecords::ReadContents(
    std::string_view name_space, const std::optional<RecordPlace>& after, int limit) {
  const auto places = Places(ListWalk::kNamespace, name_space, after, limit + 1);
  if (!places.ok()) return places.status();
  ContentPage page;
  std::size_t bytes = 0;
  std::size_t visited = 0;
  for (; visited < places->size() && visited < static_cast<std::size_t>(limit); ++visited) {
    if (bytes >= limits::kMaxResealStepBytes) break;
    const RecordPlace& place = (*places)[visited];
    auto stored = Find(place.id, Detail::kWhole);
    if (!stored.ok() && !absl::IsDataLoss(stored.status())) return stored.status();
    // Removed meanwhile.
    if (stored.ok() && !*stored) continue;
    if (stored.ok() && (*stored)->record.reply) bytes += (*stored)->record.reply->bytes.size();
    page.rows.push_back({place, stored.ok() ? *std::move(stored) : std::nullopt});
  }
  if (visited < places->size()) page.next = (*places)[visited - 1];
  return page;
}

}  // namespace idempotency::internal
