#include "server/store/postgres/schema/access.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <random>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

#include "core/absl_view.h"
#include "postgres/socket_watchdog.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/connection/conninfo.h"
#include "server/store/postgres/schema/roles.h"

namespace idempotency::internal {
namespace {

using Roles = std::vector<const PostgresRole*>;

// One login and its connection.
struct Login {
  // The flag that names it.
  std::string_view flag;
  std::unique_ptr<PostgresConnection> connection;
  PostgresOptions options;
  // The rights that its connections need, and those that only administrators do.
  Roles needs;
  Roles for_administrators;
};

std::string RoleNames(const PostgresOptions& options, const Roles& roles) {
  return absl::StrJoin(roles, ", ", [&options](std::string* text, const PostgresRole* role) {
    absl::StrAppend(text, options.schema, "_", AbslView(role->suffix));
  });
}

// "UPDATE on records, SELECT on checkpoints"; empty if the login has all.
absl::StatusOr<std::string> Lacking(Login& login, const Roles& roles) {
  std::vector<std::string> wanted;
  for (const PostgresRole* const role : roles) {
    for (const PostgresTablePrivileges& on : role->tables) {
      for (const absl::string_view privilege : absl::StrSplit(AbslView(on.privileges), ", ")) {
        wanted.push_back(absl::StrCat("('", AbslView(on.table), "', '", privilege, "')"));
      }
    }
  }
  if (wanted.empty()) return std::string();
  const auto rows = login.connection->ExecuteScript(absl::StrCat(
      "SELECT DISTINCT w.privilege || ' on ' || w.name FROM (VALUES ", absl::StrJoin(wanted, ","),
      // Rights on some columns are hand-made, and may be enough.
      ") w(name, privilege) WHERE CASE w.privilege WHEN 'DELETE'"
      " THEN NOT has_table_privilege(w.name, w.privilege)"
      " ELSE NOT has_any_column_privilege(w.name, w.privilege) END ORDER BY 1"));
  if (!rows.ok()) return rows.status();
  std::vector<std::string> lacking;
  for (int row = 0; row < rows->rows(); ++row) lacking.push_back(rows->Text(row, 0));
  return absl::StrJoin(lacking, ", ");
}

absl::StatusOr<std::string> RoleOf(Login& login) {
  const auto name = login.connection->ExecuteScript("SELECT current_user");
  if (!name.ok()) return name.status();
  return name->Text(0, 0);
}

absl::Status CheckNeeds(Login& login) {
  const absl::StatusOr<std::string> role = RoleOf(login);
  if (!role.ok()) return role.status();
  const absl::StatusOr<std::string> lacking = Lacking(login, login.needs);
  if (!lacking.ok()) return lacking.status();
  if (!lacking->empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the postgres role ", *role, " of ", AbslView(login.flag),
                     " lacks privileges on schema ", login.options.schema, ": ", *lacking,
                     ". Run `idempotencyd migrate --create_roles` and GRANT ",
                     RoleNames(login.options, login.needs), " TO ", *role));
  }
  const absl::StatusOr<std::string> of_admin = Lacking(login, login.for_administrators);
  if (!of_admin.ok()) return of_admin.status();
  if (!of_admin->empty()) {
    spdlog::info(
        "postgres: the role {} of {} cannot change what administrators change; it lacks {}. To let "
        "it, GRANT {} TO {}",
        *role, login.flag, *of_admin, RoleNames(login.options, login.for_administrators), *role);
  }
  return absl::OkStatus();
}

// Sessions that still wait for a standby are counted by their role (begin_session), which alone
// sees them.
absl::Status CheckSeesItsSessions(Login& login) {
  const auto role = login.connection->ExecuteScript(
      "SELECT session_user, current_user, session_user = current_user,"
      " current_setting('track_activities')::boolean");
  if (!role.ok()) return role.status();
  if (!role->Bool(0, 2)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the postgres login ", role->Text(0, 0), " of ", AbslView(login.flag), " acts as the role ",
        role->Text(0, 1),
        ", by a `role` setting: its sessions that wait for a standby would have no bound. Remove "
        "the setting, and GRANT the role to the login instead: ALTER ROLE ",
        role->Text(0, 0), " RESET role, or without role= in the URL"));
  }
  if (!role->Bool(0, 3)) {
    spdlog::warn(
        "postgres: track_activities is off for {}: sessions that wait for a standby have no bound. "
        "As a superuser: ALTER ROLE {} SET track_activities = on",
        login.flag, role->Text(0, 0));
  }
  return absl::OkStatus();
}

// What the login may do and no part of this program needs.
absl::Status WarnOfExcess(Login& login) {
  const bool may_delete =
      std::any_of(login.needs.begin(), login.needs.end(),
                  [](const PostgresRole* role) { return role == &kPostgresSweeperRole; });
  const auto found = login.connection->ExecuteScript(absl::StrCat(
      "SELECT current_user, r.rolsuper, r.rolbypassrls,"
      " pg_has_role((SELECT c.relowner FROM pg_class c WHERE c.oid = 'records'::regclass),"
      "   'USAGE'),",
      may_delete ? "false," : " has_table_privilege('records', 'DELETE'),",
      " has_table_privilege('audit_log', 'UPDATE, DELETE, TRUNCATE')"
      " FROM pg_roles r WHERE r.rolname = current_user"));
  if (!found.ok()) return found.status();
  std::vector<absl::string_view> excess;
  if (found->Bool(0, 1)) {
    excess = {"it is a superuser"};
  } else {
    if (found->Bool(0, 2)) excess.emplace_back("it has BYPASSRLS");
    if (found->Bool(0, 3)) {
      // Which includes the other two.
      excess.emplace_back("it owns the tables");
    } else {
      if (found->Bool(0, 4)) excess.emplace_back("it may delete records");
      if (found->Bool(0, 5)) excess.emplace_back("it may change audit_log");
    }
  }
  if (excess.empty()) return absl::OkStatus();
  Roles enough = login.needs;
  enough.insert(enough.end(), login.for_administrators.begin(), login.for_administrators.end());
  spdlog::warn(
      "postgres: the role {} of {} has more rights than it needs: {}. Run `idempotencyd migrate "
      "--create_roles`, and use a login that is a member of {} alone",
      found->Text(0, 0), login.flag, absl::StrJoin(excess, ", "), RoleNames(login.options, enough));
  return absl::OkStatus();
}

absl::Status WarnOfTransport(Login& login) {
  // Each is of this connection alone.
  const auto encrypted = login.connection->ExecuteScript(
      "SELECT coalesce((SELECT s.ssl FROM pg_stat_ssl s WHERE s.pid = pg_backend_pid()), false)"
      " OR coalesce("
      "   (SELECT g.encrypted FROM pg_stat_gssapi g WHERE g.pid = pg_backend_pid()), false)");
  if (!encrypted.ok()) return encrypted.status();
  PostgresTransport transport;
  transport.local = login.connection->IsLocal();
  transport.encrypted = encrypted->Bool(0, 0);
  transport.verified = VerifiesServer(login.options.url);
  const std::string warning = TransportWarning(transport);
  if (!warning.empty()) spdlog::warn("postgres: the connection of {} {}", login.flag, warning);
  return absl::OkStatus();
}

// A server that logs statements logs their parameters too, by default in full.
absl::Status WarnOfLoggedParameters(Login& login) {
  const auto logged = login.connection->ExecuteScript(
      "SELECT current_user, current_setting('log_parameter_max_length') <> '0' AND ("
      " current_setting('log_statement') IN ('mod', 'all')"
      " OR current_setting('log_min_duration_statement') <> '-1'"
      " OR current_setting('log_min_duration_sample') <> '-1'"
      " OR current_setting('log_transaction_sample_rate') <> '0')");
  if (!logged.ok()) return logged.status();
  if (!logged->Bool(0, 1)) return absl::OkStatus();
  spdlog::warn(
      "postgres: the server logs parameters of the statements of {}: keys, reservation tokens, and "
      "replies that are not sealed. As a superuser: ALTER ROLE {} SET log_parameter_max_length = 0",
      login.flag, logged->Text(0, 0));
  return absl::OkStatus();
}

// Both logins lead to one server, so one of them finds out. A distributed server that does not have
// a setting has nothing to warn of.
absl::Status WarnOfLostCommits(Login& login) {
  const auto settings = login.connection->ExecuteScript(
      "SELECT coalesce(current_setting('fsync', true)::boolean, true),"
      " coalesce(current_setting('full_page_writes', true)::boolean, true),"
      " coalesce(current_setting('synchronous_standby_names', true), '') <> ''");
  if (!settings.ok()) return settings.status();
  PostgresDurability durability;
  durability.fsync = settings->Bool(0, 0);
  durability.full_page_writes = settings->Bool(0, 1);
  durability.waits_for_standby = settings->Bool(0, 2);
  durability.fails_over = NamesSeveralServers(login.options.url);
  for (const std::string& warning : DurabilityWarnings(durability)) {
    spdlog::warn("postgres: the server of {}: {}", login.flag, warning);
  }
  return absl::OkStatus();
}

// A lock that one connection holds is visible to another one of the same database, and of no other:
// not of a copy either.
absl::Status CheckSameSchema(Login& calls, Login& maintenance) {
  const std::string schema = SchemaInUrl(maintenance.options.url);
  const absl::Status elsewhere = absl::FailedPreconditionError(
      absl::StrCat("--maintenance_store leads to another schema, database or server than --store: "
                   "name the same one in both, with another user"));
  if (!schema.empty() && schema != calls.options.schema) return elsewhere;
  std::random_device random;
  const std::int64_t key =
      static_cast<std::int64_t>((std::uint64_t{random()} << 32U) | std::uint64_t{random()});
  const auto held = calls.connection->ExecuteScript(
      absl::StrCat("SELECT pg_advisory_lock(", key, "), 'records'::regclass::oid::bigint"));
  if (!held.ok()) return held.status();
  const auto seen = maintenance.connection->ExecuteScript(
      absl::StrCat("SELECT pg_try_advisory_lock(", key, "), to_regclass('", calls.options.schema,
                   ".records')::oid::bigint"));
  if (!seen.ok()) return seen.status();
  const bool same = !seen->Bool(0, 0) && seen->Integer(0, 1) == held->Integer(0, 1);
  return same ? absl::OkStatus() : elsewhere;
}

absl::StatusOr<Login> Open(std::string_view flag, const PostgresOptions& options,
                           SocketWatchdog& watchdog) {
  auto connection = PostgresConnection::Open(options, watchdog);
  if (!connection.ok()) return connection.status();
  return Login{flag, *std::move(connection), options, {}, {}};
}

absl::Status CheckLogins(absl::Span<Login> logins) {
  for (Login& login : logins) {
    for (const auto check : {&CheckSeesItsSessions, &CheckNeeds, &WarnOfExcess, &WarnOfTransport,
                             &WarnOfLoggedParameters}) {
      if (absl::Status status = check(login); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPostgresAccess(const PostgresOptions& options) {
  SocketWatchdog watchdog;
  std::vector<Login> logins;
  absl::StatusOr<Login> calls = Open("--store", options, watchdog);
  if (!calls.ok()) return calls.status();
  calls->needs = {options.read_only ? &kPostgresReaderRole : &kPostgresAppRole};
  logins.push_back(*std::move(calls));
  if (!options.maintenance_url.empty()) {
    absl::StatusOr<Login> maintenance =
        Open("--maintenance_store", MaintenanceOptions(options), watchdog);
    if (!maintenance.ok()) return maintenance.status();
    logins.push_back(*std::move(maintenance));
    if (absl::Status same = CheckSameSchema(logins.front(), logins.back()); !same.ok()) {
      return same;
    }
  }
  if (!options.read_only) {
    logins.back().needs.push_back(&kPostgresSweeperRole);
    logins.back().for_administrators = {&kPostgresAdminRole};
  }
  if (absl::Status status = CheckLogins(absl::MakeSpan(logins)); !status.ok()) return status;
  return options.read_only ? absl::OkStatus() : WarnOfLostCommits(logins.front());
}

std::vector<std::string> DurabilityWarnings(const PostgresDurability& durability) {
  std::vector<std::string> warnings;
  if (!durability.fsync) {
    warnings.emplace_back(
        "fsync is off: commits are acknowledged before they are on the disk. A crash of the "
        "machine loses the last ones, and their operations run again, or damages the whole "
        "database. Set fsync to on, and reload the server's configuration (docs/failover.md)");
  }
  if (!durability.full_page_writes) {
    warnings.emplace_back(
        "full_page_writes is off: a crash of the machine while a page is written damages the "
        "records in it, unless the disk writes a page as a whole. Set full_page_writes to on, and "
        "reload the server's configuration (docs/failover.md)");
  }
  if (durability.fails_over && !durability.waits_for_standby) {
    warnings.emplace_back(
        "the URL names several servers, and synchronous_standby_names is empty: a failover loses "
        "the commits that the standby has not received, and a retry then runs again. Set "
        "synchronous_standby_names on each of them (docs/failover.md)");
  }
  return warnings;
}

std::string TransportWarning(const PostgresTransport& transport) {
  if (transport.local) return "";
  if (!transport.encrypted) {
    return "is not encrypted: records and replies can be read on the network. Turn on ssl in the "
           "server, and set sslmode=verify-full and sslrootcert= in the URL";
  }
  if (!transport.verified) {
    return "does not verify the server: another one can take its place. Set sslmode=verify-full "
           "and sslrootcert= in the URL";
  }
  return "";
}

}  // namespace idempotency::internal
