#include "server/store/postgres/statements/single_row.h"

#include "absl/strings/str_cat.h"

#include "server/store/postgres/statements/ranges_sql.h"
#include "server/store/postgres/statements/single_row/sql.h"
#include "server/store/store_gauges.h"

namespace idempotency::internal {
namespace {

// Every shard sends so many, every second, to every process.
constexpr int kNewestRows = 100;

// As in PostgresStatements.
constexpr ResultFormat kBinary = ResultFormat::kBinary;

}  // namespace

SqlSections SingleRowStatements::Sections(const std::string& clock_sql) {
  return SqlSections(
      {single_row_sql::kExpressions, single_row_sql::kReserve, single_row_sql::kSettle,
       single_row_sql::kSweep, single_row_sql::kAdmin, single_row_sql::kGauges, kRangesSql},
      {{"now", clock_sql},
       {"newest", absl::StrCat(kNewestRows)},
       {"max_counted_unknown", absl::StrCat(StoreGauges::kMaxCountedUnknown)}});
}

SingleRowStatements::SingleRowStatements(const std::string& clock_sql)
    : SingleRowStatements(Sections(clock_sql)) {}

// A name of its own: a connection of a test may have prepared those of both modes.
SingleRowStatements::SingleRowStatements(SqlSections sql)
    : read_clock(sql.Statement("read_clock", kBinary)),
      read(sql.Statement("read_row", kBinary)),
      read_confirmed(sql.Statement("read_row_confirmed", kBinary)),
      read_to_settle(sql.Statement("read_row_to_settle", kBinary)),
      read_checkpoint(sql.Statement("read_row_checkpoint", kBinary)),
      insert(sql.Statement("insert_row", kBinary)),
      start_afresh(sql.Statement("start_row_afresh", kBinary)),
      clear_old_checkpoint(sql.Statement("clear_old_row_checkpoint")),
      grant(sql.Statement("grant_row", kBinary)),
      renew_lease(sql.Statement("renew_row_lease", kBinary)),
      mark_unknown(sql.Statement("mark_row_unknown", kBinary)),
      complete(sql.Statement("complete_row", kBinary)),
      release(sql.Statement("release_row", kBinary)),
      extend(sql.Statement("extend_row", kBinary)),
      store_checkpoint(sql.Statement("store_row_checkpoint")),
      visit_ordered(sql.Statement("visit_ordered")),
      visit_hashed(sql.Statement("visit_hashed")),
      remove(sql.Statement("remove_row")),
      entomb(sql.Statement("entomb_row")),
      watch(sql.Statement("watch_row")),
      drop_reply(sql.Statement("drop_row_reply")),
      remove_checkpoint(sql.Statement("remove_row_checkpoint")),
      resolve(sql.Statement("resolve_row")),
      replace_reply(sql.Statement("replace_row_reply")),
      replace_checkpoint(sql.Statement("replace_row_checkpoint")),
      note_audit(sql.Statement("note_audit")),
      places(sql),
      walk_checkpoints(sql.Statement("walk_checkpoints")),
      measure_usage_in_scopes(sql.Statement("measure_usage_in_scopes")),
      measure_usage_in_scope(sql.Statement("measure_usage_in_scope")),
      open_for_long(sql.Statement("open_for_long")),
      newest_ordered(sql.Statement("newest_ordered")),
      newest_hashed(sql.Statement("newest_hashed")),
      count_unknown(sql.Statement("count_unknown")),
      all_(sql.statements()) {}

}  // namespace idempotency::internal
