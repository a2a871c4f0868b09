#include "server/store/postgres/schema/distribution.h"

#include <spdlog/spdlog.h>

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "core/absl_view.h"
#include "postgres/socket_watchdog.h"
#include "server/store/postgres/statements/batched.h"

namespace idempotency::internal {
namespace {

// The sequence alone cannot be unique over the nodes, as far as they know.
constexpr std::string_view kDistribute = R"sql(
DROP TRIGGER IF EXISTS audit_log_only_added_to ON {schema}.audit_log;
ALTER TABLE {schema}.audit_log DROP CONSTRAINT audit_log_pkey, ADD PRIMARY KEY (sequence, record_id);
SELECT create_distributed_table('{schema}.records', 'id', colocate_with => 'none');
SELECT create_distributed_table('{schema}.checkpoints', 'id', colocate_with => '{schema}.records');
SELECT create_distributed_table('{schema}.audit_log', 'record_id',
  colocate_with => '{schema}.records'))sql";

absl::StatusOr<bool> HasCitus(PostgresConnection& connection) {
  const auto found =
      connection.ExecuteScript("SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')");
  if (!found.ok()) return found.status();
  return found->Bool(0, 0);
}

// The lock that a store's session takes: without it the records may be distributed at this moment.
absl::Status LockAsStore(PostgresConnection& connection, const std::string& schema) {
  const auto locked = connection.ExecuteScript(
      absl::StrCat("SELECT pg_try_advisory_lock_shared(", AbslView(kPostgresServeLock), ")"));
  if (!locked.ok()) return absl::UnavailableError(locked.status().message());
  // There is no key where there is no schema.
  if (locked->IsNull(0, 0) || locked->Bool(0, 0)) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the postgres schema ", schema, " is being distributed or reverted"));
}

}  // namespace

void LogSilentNodes(const absl::Status& failure) {
  spdlog::warn("postgres: the settings of the nodes are not known, and are read again: {}",
               std::string(failure.message()));
}

absl::Status CheckCitus(PostgresConnection& connection) {
  const absl::StatusOr<bool> citus = HasCitus(connection);
  if (!citus.ok()) return citus.status();
  if (*citus) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the postgres database has no Citus: install it, add its nodes, and run CREATE EXTENSION "
      "citus; docs/scaling.md");
}

absl::StatusOr<bool> IsDistributed(PostgresConnection& connection, const std::string& schema) {
  const absl::StatusOr<bool> citus = HasCitus(connection);
  if (!citus.ok() || !*citus) return citus;
  const auto found = connection.ExecuteScript(
      absl::StrCat("SELECT EXISTS (SELECT FROM pg_dist_partition p WHERE p.logicalrelid ="
                   " to_regclass('",
                   schema, ".records') AND p.partmethod = 'h')"));
  if (!found.ok()) return found.status();
  return found->Bool(0, 0);
}

absl::Status CheckNodesCommit(PostgresConnection& connection, absl::Duration timeout) {
  const auto known =
      connection.ExecuteScript("SELECT to_regproc('run_command_on_all_nodes') IS NOT NULL");
  if (!known.ok()) return absl::UnavailableError(known.status().message());
  if (!known->Bool(0, 0)) return absl::OkStatus();
  // Of a node that is away there is a warning, and no setting.
  const auto weak = connection.ExecuteScriptWithin(
      "SELECT n.nodeid, n.result FROM run_command_on_all_nodes('SHOW synchronous_commit',"
      " give_warning_for_connection_errors => true) n"
      " WHERE n.success AND n.result IN ('off', 'local', 'remote_write') ORDER BY n.nodeid LIMIT "
      "1",
      timeout);
  if (!weak.ok()) return absl::UnavailableError(weak.status().message());
  if (weak->rows() == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "synchronous_commit is ", weak->Text(0, 1), " on node ", weak->Integer(0, 0),
      " of the distributed postgres, so a commit that is answered there may be lost: run ALTER "
      "SYSTEM SET synchronous_commit = 'on' and SELECT pg_reload_conf() on every node; "
      "docs/scaling.md"));
}

absl::StatusOr<PostgresStatementMode> ChooseStatements(
    const PostgresOptions& options, const std::optional<PostgresStatementMode>& wanted) {
  SocketWatchdog watchdog;
  const auto connection = PostgresConnection::Open(options, watchdog);
  if (!connection.ok()) return connection.status();
  if (absl::Status locked = LockAsStore(**connection, options.schema); !locked.ok()) return locked;
  const absl::StatusOr<bool> distributed = IsDistributed(**connection, options.schema);
  if (!distributed.ok()) return absl::UnavailableError(distributed.status().message());
  if (!*distributed && wanted != PostgresStatementMode::kSingleRow) {
    return PostgresStatementMode::kBatched;
  }
  if (wanted == PostgresStatementMode::kBatched) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the records of the postgres schema ", options.schema,
        " are distributed by Citus, and statements for whole batches would make transactions of "
        "several nodes: leave out --statements=batched"));
  }
  const absl::Status commits = CheckNodesCommit(**connection, options.nodes_timeout);
  if (absl::IsFailedPrecondition(commits)) return commits;
  if (!commits.ok()) LogSilentNodes(commits);
  return PostgresStatementMode::kSingleRow;
}

absl::Status DistributeTables(PostgresConnection& connection, const std::string& schema) {
  if (absl::Status begun = connection.Begin(); !begun.ok()) return begun;
  const auto done =
      connection.ExecuteScript(absl::StrReplaceAll(AbslView(kDistribute), {{"{schema}", schema}}));
  if (!done.ok()) {
    connection.Rollback().IgnoreError();
    return absl::FailedPreconditionError(absl::StrCat("cannot distribute the postgres schema ",
                                                      schema, ": ", done.status().message()));
  }
  return connection.Commit();
}

}  // namespace idempotency::internal
