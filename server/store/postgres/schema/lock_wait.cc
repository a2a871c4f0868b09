#include "server/store/postgres/schema/lock_wait.h"

#include "absl/strings/str_cat.h"

namespace idempotency::internal {

absl::Status LetAutovacuumYield(PostgresConnection& connection, absl::Duration lock_timeout) {
  // The rest of lock_timeout is for the vacuum's end.
  return connection
      .ExecuteScript(
          absl::StrCat("DO $$ BEGIN PERFORM set_config('deadlock_timeout', '",
                       absl::ToInt64Milliseconds(lock_timeout / 4),
                       "', false); EXCEPTION WHEN insufficient_privilege THEN NULL; END $$"))
      .status();
}

absl::Status EndWithClient(PostgresConnection& connection) {
  return connection
      .ExecuteScript(
          "DO $$ BEGIN PERFORM set_config('client_connection_check_interval', '10s', false);"
          " EXCEPTION WHEN invalid_parameter_value OR undefined_object THEN NULL; END $$")
      .status();
}

std::string MigrationLock(const std::string& schema) {
  return absl::StrCat("hashtextextended('idempotency migrate ", schema, "', 0)");
}

std::string HoldersOfMigrationLock(PostgresConnection& connection, const std::string& schema) {
  const auto holders = connection.ExecuteScript(absl::StrCat(
      "SELECT string_agg(format('PID %s', pid), ', ' ORDER BY pid) FROM pg_locks"
      " WHERE locktype = 'advisory' AND granted AND objsubid = 1"
      " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
      " AND (classid::bigint << 32 | objid::bigint) = ",
      MigrationLock(schema)));
  if (!holders.ok() || holders->IsNull(0, 0)) return "";
  return holders->Text(0, 0);
}

std::string RemedyForLockWait(PostgresConnection& connection, const std::string& schema) {
  const auto vacuums = connection.ExecuteScript(absl::StrCat(
      "SELECT string_agg(DISTINCT format('%s (PID %s)', t.relname, l.pid), ', ') FROM pg_class t"
      " JOIN pg_locks l ON l.relation IN (t.oid, t.reltoastrelid) AND l.granted"
      " WHERE t.relnamespace = to_regnamespace('",
      schema,
      "') AND t.relkind = 'r' AND l.pid IN (SELECT pid FROM pg_stat_progress_vacuum"
      " UNION SELECT pid FROM pg_stat_progress_analyze)"));
  if (!vacuums.ok() || vacuums->IsNull(0, 0)) {
    return "look for a long transaction in pg_stat_activity";
  }
  return absl::StrCat(
      "a vacuum holds it: ", vacuums->Text(0, 0),
      "; end it as a superuser with SELECT pg_terminate_backend(PID), which does no "
      "harm, or migrate as a superuser, for whom an autovacuum gives way");
}

}  // namespace idempotency::internal
