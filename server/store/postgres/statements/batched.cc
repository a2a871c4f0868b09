#include "server/store/postgres/statements/batched.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "grpc_idempotency/limits.h"
#include "migrations/migrations.h"
#include "server/store/limits.h"
#include "server/store/postgres/statements/batched/sql.h"
#include "server/store/postgres/statements/ranges_sql.h"
#include "server/store/postgres/statements/sweep_limits.h"
#include "server/store/store_gauges.h"

namespace idempotency::internal {
namespace {

// Rows of each kind that an inspection reads: it runs every second, in every process.
constexpr std::size_t kInspectedRows = StoreGauges::kMaxCountedUnknown;

// What calls wait for: the server prints, and this program parses, nothing.
constexpr ResultFormat kBinary = ResultFormat::kBinary;

std::string Seconds(absl::Duration duration) {
  return absl::StrCat("interval '", absl::ToInt64Seconds(duration), " seconds'");
}

}  // namespace

SqlSections PostgresStatements::Sections(const std::string& clock_sql) {
  return SqlSections({batched_sql::kExpressions, batched_sql::kReserve, batched_sql::kSettle,
                      batched_sql::kRead, batched_sql::kSweep, batched_sql::kAdmin,
                      batched_sql::kReseal, batched_sql::kSession, kRangesSql},
                     {// The store's clock, read again at each use.
                      {"now", clock_sql},
                      {"margin", Seconds(limits::kClockStepMargin)},
                      {"ahead", Seconds(limits::kMaxKeyAhead)},
                      {"max_batch_reply_bytes", absl::StrCat(limits::kMaxBatchReplyBytes)},
                      {"max_reseal_step_bytes", absl::StrCat(limits::kMaxResealStepBytes)},
                      {"dropped_at_once_bytes", absl::StrCat(sweep_limits::kDroppedAtOnceBytes)},
                      {"removed_at_once_bytes", absl::StrCat(sweep_limits::kRemovedAtOnceBytes)},
                      {"open_for_long", Seconds(sweep_limits::kOpenForLong)},
                      {"inspected", absl::StrCat(kInspectedRows)},
                      // The number of the newest migration.
                      {"known", absl::StrCat(AllMigrations().size())},
                      {"serve_lock", std::string(kPostgresServeLock)}});
}

PostgresStatements::PostgresStatements(const std::string& clock_sql)
    : PostgresStatements(Sections(clock_sql)) {}

PostgresStatements::PostgresStatements(SqlSections sql)
    : insert(sql.Statement("insert", kBinary)),
      insert_one(sql.Statement("insert_one", kBinary)),
      insert_relaxed(sql.Statement("insert_relaxed", kBinary)),
      insert_one_relaxed(sql.Statement("insert_one_relaxed", kBinary)),
      read_to_reserve(sql.Statement("read_to_reserve", kBinary)),
      read_large_to_reserve(sql.Statement("read_large_to_reserve", kBinary)),
      read_clock(sql.Statement("read_clock", kBinary)),
      start_afresh(sql.Statement("start_afresh", kBinary)),
      grant(sql.Statement("grant", kBinary)),
      renew_lease(sql.Statement("renew_lease", kBinary)),
      mark_unknown(sql.Statement("mark_unknown", kBinary)),
      complete(sql.Statement("complete", kBinary)),
      complete_one(sql.Statement("complete_one", kBinary)),
      release(sql.Statement("release", kBinary)),
      extend(sql.Statement("extend", kBinary)),
      extend_with_checkpoint(sql.Statement("extend_with_checkpoint", kBinary)),
      complete_and_insert(sql.Statement("complete_and_insert", kBinary)),
      read_to_settle(sql.Statement("read_to_settle", kBinary)),
      read_whole(sql.Statement("read_whole", kBinary)),
      read_whole_confirmed(sql.Statement("read_whole_confirmed", kBinary)),
      find_locked(sql.Statement("find_locked", kBinary)),
      sweep_ordered(sql.Statement("sweep_ordered")),
      sweep_hashed(sql.Statement("sweep_hashed")),
      read_to_drop(sql.Statement("read_to_drop")),
      drop_replies(sql.Statement("drop_replies")),
      list_namespace(sql.Statement("list_namespace")),
      list_scope(sql.Statement("list_scope")),
      list_unknown(sql.Statement("list_unknown")),
      list_children(sql.Statement("list_children")),
      resolve(sql.Statement("resolve")),
      purge_one(sql.Statement("purge_one")),
      purge_scope(sql.Statement("purge_scope")),
      purge_namespace(sql.Statement("purge_namespace")),
      count_scope(sql.Statement("count_scope")),
      count_namespace(sql.Statement("count_namespace")),
      read_contents(sql.Statement("read_contents")),
      reseal(sql.Statement("reseal")),
      read_audit(sql.Statement("read_audit")),
      read_newest_audit(sql.Statement("read_newest_audit")),
      read_audit_of_record(sql.Statement("read_audit_of_record")),
      places(sql),
      end_unknown(sql.Statement("end_unknown")),
      measure_usage(sql.Statement("measure_usage")),
      begin_session(sql.Statement("begin_session")),
      read_schema(sql.Statement("read_schema")),
      probe_commit(sql.Statement("probe_commit")),
      inspect(sql.Statement("inspect")),
      all_(sql.statements()) {}

}  // namespace idempotency::internal
