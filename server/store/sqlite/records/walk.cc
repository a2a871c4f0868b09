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
// The index is named, so that none is ever a scan of the table.
constexpr char kWalkNamespace[] =
    " FROM records AS r INDEXED BY records_by_scope"
    " WHERE namespace = ?1 AND (scope, id) > (?2, ?3) ORDER BY scope, id LIMIT ?4";
// ?5 now. In the order of kWalkNamespace; only the header of a reply is read, for its length.
constexpr char kMeasureUsage[] =
    "SELECT scope, id, expires_at > ?5 OR state = 4 OR (state = 1 AND on_lease_expiry = 2),"
    " coalesce(length(reply), 0)"
    " FROM records AS r INDEXED BY records_by_scope"
    " WHERE namespace = ?1 AND (scope, id) > (?2, ?3) ORDER BY scope, id LIMIT ?4";
constexpr char kWalkScope[] =
    " FROM records AS r INDEXED BY records_by_scope"
    " WHERE namespace = ?1 AND scope = ?2 AND id > ?3 ORDER BY id LIMIT ?4";
constexpr char kWalkUnknown[] =
    " FROM records AS r INDEXED BY records_unknown_by_namespace"
    " WHERE state = 4 AND namespace = ?1 AND ?2 IS NOT NULL AND id > ?3 ORDER BY id LIMIT ?4";
constexpr char kWalkChildren[] =
    " FROM records AS r INDEXED BY records_by_parent"
    " WHERE parent_key = ?1 AND ?2 IS NOT NULL AND id > ?3 ORDER BY id LIMIT ?4";

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
  const auto walk = [](const char* from) {
    return absl::StrCat("SELECT scope, id, coalesce(length(reply), 0)", from);
  };
  return PrepareAll(connection, {{walk_namespace_, walk(kWalkNamespace)},
                                 {walk_scope_, walk(kWalkScope)},
                                 {walk_unknown_, walk(kWalkUnknown)},
                                 {walk_children_, walk(kWalkChildren)},
                                 {measure_usage_, kMeasureUsage}});
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
  const RecordPlace place = op.after.value_or(RecordPlace());
  SqliteStatement::Run run(measure_usage_);
  run->BindText(1, op.name_space);
  BindPlace(*run, place);
  run->Bind(4, std::int64_t{op.limit});
  run->Bind(5, now);
  UsageStep step;
  for (absl::StatusOr<bool> row = run->Step();; row = run->Step()) {
    if (!row.ok()) return row.status();
    if (!*row) break;
    step.visited += 1;
    step.next =
        RecordPlace{std::string(run->Text(0).value_or("")), run->UuidBlob(1).value_or(RecordId())};
    if (run->Integer(2).value_or(0) == 0) continue;
    step.usage.records += 1;
    step.usage.reply_bytes += run->Integer(3).value_or(0);
  }
  if (step.visited < op.limit) step.next.reset();
  return step;
}

absl::StatusOr<std::vector<SqliteRecords::Place>> SqliteRecords::Places(
    ListWalk walk, std::string_view first_part, const std::optional<RecordPlace>& after,
    int limit) {
  std::vector<Place> places;
  const RecordPlace place = after.value_or(RecordPlace());
  SqliteStatement::Run run(StatementOf(walk));
  run->BindText(1, first_part);
  BindPlace(*run, place);
  run->Bind(4, std::int64_t{limit});
  for (absl::StatusOr<bool> row = run->Step();; row = run->Step()) {
    if (!row.ok()) return row.status();
    if (!*row) return places;
    places.push_back(
        {{std::string(run->Text(0).value_or("")), run->UuidBlob(1).value_or(RecordId())},
         run->Integer(2).value_or(0)});
  }
}

absl::StatusOr<SqliteRecords::WalkPage> SqliteRecords::Walk(ListWalk walk,
                                                            std::string_view first_part,
                                                            const std::optional<RecordPlace>& after,
                                                            int limit) {
  absl::StatusOr<std::vector<Place>> places = Places(walk, first_part, after, limit);
  if (!places.ok()) return places.status();
  WalkPage page;
  page.more = places->size() == static_cast<std::size_t>(limit);
  std::int64_t bytes = 0;
  for (auto& [place, reply_bytes] : *places) {
    if (bytes >= kMaxStepBytes) {
      page.more = true;
      break;
    }
    bytes += reply_bytes;
    auto stored = Find(place.id, Detail::kSlim);
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
    const RecordPlace& place = (*places)[visited].place;
    auto stored = Find(place.id, Detail::kWhole);
    if (!stored.ok() && !absl::IsDataLoss(stored.status())) return stored.status();
    // Removed meanwhile.
    if (stored.ok() && !*stored) continue;
    if (stored.ok() && (*stored)->record.reply) bytes += (*stored)->record.reply->bytes.size();
    page.rows.push_back({place, stored.ok() ? *std::move(stored) : std::nullopt});
  }
  if (visited < places->size()) page.next = (*places)[visited - 1].place;
  return page;
}

}  // namespace idempotency::internal
